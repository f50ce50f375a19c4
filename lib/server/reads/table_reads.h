// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TableReads: pulls, scans, and values that a command asks for. The values of a pull go
///  - into the reply, if the worker asks for that or there are none;
///  - straight into the worker's memory, where that is mapped;
///  - to the worker's memory by a network write otherwise: those of a range from the table
///    itself, those of a list from a buffer.
/// A reply says which iteration the values show. Where a pull names one, or the table has some, a
/// network write is followed by a reply, too; so it is while answers need a lease. A write from the
/// table pins its rows until it ends. New pins wait while pushes wait for pins.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "lib/server/iterations/iteration_parts.h"
#include "lib/server/requests/function_calls.h"
#include "lib/server/requests/pull_writes.h"
#include "lib/server/requests/row_scan.h"
#include "lib/wire/get_message.h"

namespace weir {

class TableReads : ShardRoom {
public:
    TableReads(const ShardRoom& room, WaitingRequests& waiting, IterationParts& parts,
               FunctionCalls& functions)
        : ShardRoom(room),
          waiting_(waiting),
          parts_(parts),
          functions_(functions),
          writes_(endpoint_, waiting_.requests()),
          row_scan_(options_.secret_seed) {}

    // Pulls.

    /// One that may go on as soon as its bytes are here.
    void start(Session& session, ShardTable& table, Request& pull) {
        if (waiting_.find_or_fetch(session, pull)) apply(table, pull);
    }

    /// The bytes of a pull are here.
    void apply(ShardTable& table, const Request& request);

    /// Network writes that wait.
    [[nodiscard]] bool has_waiting() const noexcept { return writes_.waiting(); }

    size_t post_waiting();
    /// The write that was posted with `context` has ended.
    void written(uint64_t context, Errc status);

    /// As PullWrites::want_replies(), and forget().
    void want_replies() noexcept { writes_.want_replies(); }

    template <class Of>
    void forget(const Of& of) {
        writes_.forget(of);
        end_writes();
    }

    /// The table is dropped. It goes when the network reads no row of it any more.
    void drop(std::unique_ptr<ShardTable> table);

    /// Writes the next rows of a table, or what a function finds in them, to the worker's memory, whatever is pushed
    /// meanwhile; straight, where that is mapped, and else from a buffer through the network. Returns
    /// what is wrong with the frame; empty if nothing is.
    [[nodiscard]] std::string_view scan(Session& session, const wire::Frame& frame);

    /// Values that a command asks for, through the manager: as a pull, of few keys.
    void get(uint64_t request, std::span<const std::byte> body);

private:
    void end_pull(const Request& request, Errc status, uint64_t shown,
                  std::span<const std::byte> values = {});
    [[nodiscard]] Result<std::span<const std::byte>> values_of(ShardTable& table,
                                                               const Request& request,
                                                               size_t bytes);
    [[nodiscard]] Errc read_rows(ShardTable& table, const Request& request,
                                 std::span<std::byte> out);
    void pull_encoded(ShardTable& table, const Request& request, size_t bytes, uint64_t shown);
    void pull_by_write(ShardTable& table, const Request& request, size_t bytes);
    void end_writes();
    template <class Copy>
    void write_scanned(Session& session, const wire::Frame& frame, const ScanMessage& asked,
                       const ScanReply& reply, ShardTable& table, size_t bytes, Copy&& copy);
    [[nodiscard]] Errc read_by_function(Session& session, const wire::Frame& frame,
                                        const ScanMessage& asked, ShardTable& table);

    WaitingRequests& waiting_;
    IterationParts& parts_;
    FunctionCalls& functions_;
    PullWrites writes_;
    RowScan row_scan_;
    std::vector<std::unique_ptr<ShardTable>> dropped_;  ///< of which the network reads rows
    std::vector<std::byte> reply_buffer_;               ///< kept for its memory, as what follows
    std::vector<std::byte> encoded_reply_;
    BodyEncoder encoder_;
};

}  // namespace weir

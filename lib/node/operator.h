// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Operator: a command's connection to the manager of a running job.

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/node/manager_place.h"
#include "lib/wire/frame.h"
#include "lib/wire/get_message.h"
#include "lib/wire/job_status.h"
#include "transport/transport.h"

namespace weir {

/// Each call waits for its answer. After an error other than the manager's refusal of a request,
/// the connection is of no more use.
///
/// Thread: one
class Operator {
public:
    static constexpr size_t kStatusBytesMax = size_t{64} << 20;

    /// Connects with the first call. Of several managers, it asks the one that leads.
    Operator(std::unique_ptr<transport::Endpoint> endpoint, std::vector<ManagerPlace> managers,
             const Clock& clock, uint64_t timeout_ns = 10 * kSecond)
        : endpoint_(std::move(endpoint)),
          managers_(std::move(managers)),
          clock_(clock),
          timeout_ns_(timeout_ns) {}

    /// Errors: Errc::kUnavailable if the job has not begun, or is over; Errc::kDeadline,
    ///         Errc::kPeerLost if the manager does not answer, or, of several, none leads
    [[nodiscard]] Result<JobStatus> status();

    enum class Stop : uint8_t {
        kInOrder,  ///< workers are asked to end, and a checkpoint is begun, if the job has a folder
        kNow       ///< all members get an error
    };

    /// Has the job end. Returns once that has begun.
    ///
    /// Errors: those of status()
    [[nodiscard]] Status stop(Stop how);

    /// Has the job write a checkpoint. Returns its number when it is written.
    ///
    /// Errors: kUnavailable if the job has no folder for them; why it was not written; those of status()
    [[nodiscard]] Result<uint64_t> checkpoint(uint64_t timeout_ns);

    /// Values of a table as they are now: of the first keys that are asked for, at least of one.
    ///
    /// Errors: Errc::kNotFound, Errc::kUnavailable if the job does not have the table, or not yet;
    ///         Errc::kOutOfRange for a key that it does not have; Errc::kInvalidArgument if its rows are too
    ///         long; those of status()
    [[nodiscard]] Result<GetReply> get(const GetMessage& question);

    /// Tells a server to hand over what it holds, and to end. Returns once that has begun.
    ///
    /// Errors: those of Membership::leave_server(), and of status()
    [[nodiscard]] Status leave(uint32_t server);

    /// The same, asked by the server itself. One that joined as `joiner` (JoinMessage::joiner)
    /// names itself by that number, one that began with the job (`joiner` 0) by `server`.
    ///
    /// Errors: as well Errc::kCancelled if the whole job is being stopped
    [[nodiscard]] Status leave_by_itself(uint32_t server, uint64_t joiner);

    /// The server's process ends now, and has handed over nothing. Returns once the manager knows.
    ///
    /// Errors: those of status()
    [[nodiscard]] Status end_unserved(uint32_t server, uint64_t joiner);

private:
    [[nodiscard]] Status connect(uint64_t until_ns);
    [[nodiscard]] Result<std::vector<std::byte>> ask_one(wire::Kind kind, uint64_t first,
                                                         std::span<const std::byte> body,
                                                         uint64_t until_ns, uint64_t one_ns);

    [[nodiscard]] const std::string& address() const { return managers_[asked_].address; }

    [[nodiscard]] Result<std::vector<std::byte>> ask(wire::Kind kind, uint64_t first,
                                                     std::span<const std::byte> body = {});
    /// `one_ns`: for one of several managers to answer
    [[nodiscard]] Result<std::vector<std::byte>> ask(wire::Kind kind, uint64_t first,
                                                     std::span<const std::byte> body,
                                                     uint64_t timeout_ns, uint64_t one_ns);
    [[nodiscard]] Result<size_t> poll();
    [[nodiscard]] Status take(const transport::Completion& completion);
    void send(wire::Kind kind, uint64_t request, uint64_t first, std::span<const std::byte> body);

    std::unique_ptr<transport::Endpoint> endpoint_;
    std::vector<ManagerPlace> managers_;  ///< by their numbers
    size_t asked_ = 0;                    ///< of managers_
    const Clock& clock_;
    uint64_t timeout_ns_;
    transport::ConnectionId connection_ = 0;
    bool is_connected_ = false;
    uint64_t last_request_ = 0;
    std::array<transport::Completion, 8> completions_;

    /// The answer to the last request, as far as it is here.
    struct Answer {
        bool is_whole = false;
        Errc status = Errc::kOk;
        std::vector<std::byte> body;
    } answer_;
};

}  // namespace weir

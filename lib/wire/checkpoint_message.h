// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The bodies of Kind::kCheckpoint: what the manager has shards do for checkpoints, and what they
/// report. Encoded as the other bodies (messages.h).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/checkpoint/manifest.h"

namespace weir {

/// A table, and an iteration of it.
struct TableIteration {
    uint32_t table = 0;
    uint64_t iteration = 0;
    friend bool operator==(const TableIteration&, const TableIteration&) = default;
};

/// From the manager to a shard.
struct CheckpointOrder {
    enum class Step : uint8_t {
        kFreeze = 1,  ///< execute no push and begin no iteration anywhere; report kFrozen
        kTake = 2,    ///< keep the rows of `tables`, each as of its iteration, and go on
        kGiveUp = 3,  ///< there will be no checkpoint `number`
        kFill = 4,    ///< fill the one table in `tables` from checkpoint `number` of `folder`
        kWatch = 5    ///< report each time a table has closed `number` more iterations
    };
    static constexpr size_t kTablesMax = 32;  ///< of one message
    static constexpr size_t kFolderBytesMax = 1024;

    Step step = Step::kFreeze;
    bool has_more = false;  ///< further tables follow in another message
    uint64_t number = 0;    ///< of the checkpoint
    uint64_t base = 0;      ///< kTake: the one before, whose chunks may be named again; 0: none
    std::string folder = {};
    std::vector<TableIteration> tables = {};

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<CheckpointOrder> decode(std::span<const std::byte> body);
    friend bool operator==(const CheckpointOrder&, const CheckpointOrder&) = default;
};

/// From a worker to the manager, in `first`; kBegin from a command.
enum class CheckpointAsk : uint64_t {
    kWrite = 0,         ///< a checkpoint; its number is in the answer
    kResumedFrom = 1,   ///< the answer is a ResumedMessage
    kForgetUnread = 2,  ///< the job shall not have those tables of it that nobody has asked for
    kWritten = 3,       ///< the answer is a WrittenMessage
    kBegin = 4          ///< a checkpoint; the answer does not wait for it
};

/// The checkpoints that the job has written, and those that it could not write.
struct WrittenMessage {
    struct Written {
        uint64_t number = 0;       ///< 0: it failed before it had one
        uint64_t age_ns = 0;       ///< since it was complete, or failed
        std::string failure = {};  ///< why it failed; empty: it is complete
        friend bool operator==(const Written&, const Written&) = default;
    };

    static constexpr size_t kCheckpointsMax = 256;  ///< older ones are left out
    static constexpr size_t kFailureBytesMax = 600;
    uint64_t ended_count = 0;               ///< with those that are left out
    std::vector<Written> checkpoints = {};  ///< the last one first

    /// So many of the first as fit into a body.
    [[nodiscard]] std::vector<std::byte> encode(size_t bytes_max) const;
    [[nodiscard]] static std::optional<WrittenMessage> decode(std::span<const std::byte> body);
    friend bool operator==(const WrittenMessage&, const WrittenMessage&) = default;
};

/// What the job goes on from.
struct ResumedMessage {
    struct SavedTable {
        std::string name;
        uint64_t closed = 0;  ///< the last iteration that is in it
        friend bool operator==(const SavedTable&, const SavedTable&) = default;
    };

    uint64_t checkpoint = 0;              ///< its number; 0: nothing
    std::vector<SavedTable> tables = {};  ///< those with the highest numbers first

    /// So many of the first tables as fit into a body.
    [[nodiscard]] std::vector<std::byte> encode(size_t bytes_max) const;
    [[nodiscard]] static std::optional<ResumedMessage> decode(std::span<const std::byte> body);
    friend bool operator==(const ResumedMessage&, const ResumedMessage&) = default;
};

/// From a shard to the manager.
struct CheckpointReport {
    enum class Step : uint8_t {
        kFrozen = 1,  ///< and this is the last iteration that each table has closed anywhere here
        kTaken = 2,   ///< the rows of all tables are kept
        kChunk = 3,   ///< `chunk` is on the disk
        kSaved = 4,   ///< so are all chunks of this shard
        kFailed = 5,  ///< `status` and `why`
        kFilled = 6,  ///< the table `number` has its rows, or not: `status` and `why`
        kDue = 7      ///< as kWatch asks for
    };
    static constexpr size_t kWhyBytesMax = 600;

    Step step = Step::kFrozen;
    bool has_more = false;
    uint64_t number = 0;
    std::vector<TableIteration> tables = {};
    checkpoint::ChunkEntry chunk = {};
    Errc status = Errc::kOk;
    std::string why = {};

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<CheckpointReport> decode(std::span<const std::byte> body);
    friend bool operator==(const CheckpointReport&, const CheckpointReport&) = default;
};

}  // namespace weir

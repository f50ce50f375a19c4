// SPDX-License-Identifier: Apache-2.0
#include "lib/server/checkpoint/table_fill.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/checkpoint/choose.h"
#include "lib/checkpoint/range_reader.h"

namespace weir {

using checkpoint::Disk;
using checkpoint::Manifest;
using checkpoint::RangeReader;

struct TableFill::Reading {
    std::string folder;
    uint64_t number = 0;
    TableSchema table;
    RowLayout rows;
    PositionSet positions;
    Manifest manifest = {};
    std::optional<RangeReader> reader = {};
    RangeReader::Part part = {};
    bool has_part = false;  ///< it was read, and is in no batch yet

    // A batch: parts that follow each other, so that the two threads change seldom.
    KeyRange range = {};
    std::vector<uint64_t> keys = {};
    std::vector<std::byte> values = {};
    std::vector<std::byte> state = {};

    /// Whether there is another batch.
    [[nodiscard]] Result<bool> next(Disk& disk) {
        constexpr size_t kBatchBytes = size_t{4} << 20;
        WEIR_TRY(open(disk));
        range = {};
        keys.clear();
        values.clear();
        state.clear();
        while (values.size() + state.size() < kBatchBytes) {
            if (!has_part) {
                const Result<bool> read = reader->next(part);
                if (!read) return advised(disk, read.error());
                has_part = *read;
            }
            if (!has_part) break;
            const bool follows = values.empty() || part.range.begin == range.end;
            if (!part.range.empty() && !follows) break;
            if (!part.range.empty())
                range = {values.empty() ? part.range.begin : range.begin, part.range.end};
            keys.insert(keys.end(), part.keys.begin(), part.keys.end());
            values.insert(values.end(), part.values.begin(), part.values.end());
            state.insert(state.end(), part.state.begin(), part.state.end());
            has_part = false;
        }
        return !values.empty();
    }

    /// With the flag that goes on from another checkpoint, if that helps: the rows cannot be read.
    [[nodiscard]] Error advised(Disk& disk, const Error& why) const {
        if (why.code() == Errc::kTypeMismatch) return why;
        return {why.code(),
                why.text() + checkpoint::other_choice(disk, folder, number, reader->chunk_name()),
                why.os_error()};
    }

    /// The manifest, when it was not read yet.
    [[nodiscard]] Status open(Disk& disk) {
        if (!reader) {
            WEIR_ASSIGN(manifest, checkpoint::read_manifest(disk, folder, number));
            const TableSchema* const there = manifest.find_table(table.name);
            TableSchema then = there == nullptr ? TableSchema() : *there;
            then.rule_version =
                table.rule_version;  // the rule may be another one now: its rows count
            then.rule_hash = table.rule_hash;
            if (then != table) {
                return Error(Errc::kNotFound,
                             fmt::format("{}: checkpoint {} has no such table '{}'", folder, number,
                                         table.name));
            }
            reader.emplace(disk, folder, manifest, *there, rows, positions);
        }
        return {};
    }
};

TableFill::TableFill(TableShard& table, PositionSet positions,
                     std::shared_ptr<checkpoint::DiskQueue> disk, std::string folder,
                     uint64_t number)
    : table_(table), disk_(std::move(disk)) {
    if (disk_ == nullptr) {
        end(Error(Errc::kUnavailable, "this server can read no checkpoints"));
        return;
    }
    reading_ = std::make_shared<Reading>(Reading{std::move(folder), number, table.schema(),
                                                 table.row_layout(), std::move(positions)});
    read();
}

void TableFill::read() {
    next_ = disk_->add([reading = reading_](Disk& disk) { return reading->next(disk); });
}

void TableFill::end(Status outcome) {
    is_over_ = true;
    outcome_ = std::move(outcome);
    reading_.reset();
}

size_t TableFill::step() {
    constexpr size_t kStepBytes = size_t{128} << 10;
    constexpr size_t kStepKeys = 2048;  // finding their rows takes longer than copying them
    if (is_over_) return 0;
    if (!has_part_) {
        if (!checkpoint::is_done(next_)) return 0;
        const Result<bool> more = next_.get();
        if (!more || !*more) {
            end(more ? Status() : more.error());
            return 1;
        }
        has_part_ = true;
        taken_ = 0;
    }
    const Reading& batch = *reading_;
    const size_t value_bytes = table_.row_layout().value_bytes();
    const size_t state_bytes = table_.row_layout().state_bytes;
    const size_t row_count = batch.range.key_count() + batch.keys.size();
    const size_t some_max = std::max<size_t>(1, kStepBytes / (value_bytes + state_bytes));
    const size_t some =
        std::min(row_count - taken_, batch.keys.empty() ? some_max : std::min(some_max, kStepKeys));
    const auto values = std::span(batch.values).subspan(taken_ * value_bytes, some * value_bytes);
    const auto state = std::span(batch.state).subspan(taken_ * state_bytes, some * state_bytes);
    const uint64_t first = batch.range.begin + taken_;
    Status taken;
    if (some > 0) {
        taken = batch.keys.empty()
                    ? table_.take(KeyRange{first, first + some}, values, state)
                    : table_.take(std::span(batch.keys).subspan(taken_, some), values, state);
    }
    taken_ += some;
    if (!taken) {
        end(std::move(taken));
    } else if (taken_ == row_count) {
        has_part_ = false;
        read();
    }
    return some * (value_bytes + state_bytes) + 1;
}

}  // namespace weir

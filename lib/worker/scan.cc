// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/scan.h"

#include <cstring>
#include <numeric>

#include <fmt/core.h>

#include "lib/node/scan_message.h"
#include "lib/worker/client_state.h"

namespace weir {
namespace {

/// More pieces without a row than the largest shard can send one after the other.
constexpr uint64_t kEmptyPiecesMax = uint64_t{1} << 20;

}  // namespace

TableScan::TableScan(std::shared_ptr<ClientState> state, std::shared_ptr<const TableInfo> info,
                     const ScanOptions& options)
    : state_(std::move(state)), info_(std::move(info)), options_(options) {
    if (options_.keys && !options_.keys->well_formed()) {
        status_ = Error(Errc::kInvalidArgument,
                        fmt::format("table '{}': a scan of keys from {} to {}, before it begins",
                                    info_->schema.name, options_.keys->begin, options_.keys->end));
    } else if (options_.deadline.count() < 0) {
        status_ = Error(Errc::kDeadline, fmt::format("table '{}': the deadline of the scan was "
                                                     "over when it began",
                                                     info_->schema.name));
    } else if (!options_.keys || !options_.keys->empty()) {
        ask();
    }
}

TableScan::~TableScan() {
    if (is_asked_) state_->core().drop(call_);
}

/// Asks for the next piece while the caller uses the one before.
void TableScan::ask() {
    if (begins_) epoch_ = state_->core().epoch();
    ScanMessage message;
    message.epoch = epoch_;
    message.table = info_->schema.id;
    message.width = info_->schema.width;
    message.value_type = static_cast<uint8_t>(info_->schema.value_type);
    message.begins = begins_;
    message.cursor = cursor_;
    if (options_.keys) {
        message.first_key = options_.keys->begin;
        message.last_key = options_.keys->end - 1;
    }
    call_ = state_->core().scan(shard_, message, static_cast<uint64_t>(options_.deadline.count()));
    is_asked_ = true;
}

bool TableScan::next() {
    keys_.clear();
    values_.clear();
    if (status_ && is_asked_) status_ = state_->may_wait();
    while (status_ && is_asked_ && keys_.empty())
        status_ = take_piece();
    if (status_) return !keys_.empty();
    keys_.clear();
    values_.clear();
    return false;
}

Status TableScan::take_piece() {
    ClientCore& core = state_->core();
    is_asked_ = false;
    state_->wait_until([&] { return core.done(call_); });
    const Result<std::vector<std::byte>> body = core.take_scan(call_);
    if (body.code() == Errc::kStaleEpoch) {
        return Error(Errc::kStaleEpoch,
                     fmt::format("table '{}': keys have moved to other servers while it was read "
                                 "out; begin the scan anew",
                                 info_->schema.name));
    }
    if (!body) return body.error();
    const std::optional<ScanReply> reply = ScanReply::decode(*body, info_->row_bytes);
    empty_pieces_ = reply && reply->row_count == 0 ? empty_pieces_ + 1 : 0;
    if (!reply || empty_pieces_ > kEmptyPiecesMax) {
        return Error(Errc::kProtocol, fmt::format("table '{}': a malformed piece of a scan from {}",
                                                  info_->schema.name, core.peer_name(shard_)));
    }
    keys_.resize(reply->row_count);
    if ((reply->flags & ScanReply::kRange) != 0) {
        std::iota(keys_.begin(), keys_.end(), reply->first_key);
    } else if (!reply->keys.empty()) {
        std::memcpy(keys_.data(), reply->keys.data(), reply->keys.size());
    }
    values_.assign(reply->values.begin(), reply->values.end());
    const bool is_pulled = (reply->flags & ScanReply::kKeysOnly) != 0;
    cursor_ = reply->cursor;
    begins_ = false;
    if ((reply->flags & ScanReply::kAtEnd) != 0) {
        begins_ = true;
        ++shard_;
    }
    if (shard_ < core.shard_count()) ask();
    return is_pulled ? pull_values() : Status();
}

/// Rows that are longer than a message.
Status TableScan::pull_values() {
    values_.resize(keys_.size() * info_->row_bytes);
    CallOptions options;
    options.deadline_ns = static_cast<uint64_t>(options_.deadline.count());
    return state_->finish(state_->core().pull(*info_, keys_, values_, options));
}

}  // namespace weir

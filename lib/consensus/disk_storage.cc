// SPDX-License-Identifier: Apache-2.0
#include "lib/consensus/disk_storage.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace weir::consensus {
namespace {

constexpr std::string_view kJournalPrefix = "journal-";
constexpr std::string_view kUnfinishedSuffix = ".part";
constexpr size_t kHexDigits = 16;

std::string journal_name(uint64_t number) {
    return fmt::format("{}{:016x}", kJournalPrefix, number);
}

/// nullopt: it is no journal, or one that was never finished.
std::optional<uint64_t> journal_number(std::string_view name) {
    if (!name.starts_with(kJournalPrefix)) return std::nullopt;
    const std::string_view digits = name.substr(kJournalPrefix.size());
    uint64_t number = 0;
    const char* const end = digits.data() + digits.size();
    const auto [parsed, error] = std::from_chars(digits.data(), end, number, 16);
    const bool is_number = error == std::errc() && parsed == end && digits.size() == kHexDigits;
    return is_number && number > 0 ? std::optional(number) : std::nullopt;
}

}  // namespace

Result<std::unique_ptr<DiskStorage>> DiskStorage::open(checkpoint::Disk& disk,
                                                       const std::string& folder, uint64_t group,
                                                       uint64_t replica) {
    std::unique_ptr<DiskStorage> storage(new DiskStorage(disk, folder, group, replica));
    WEIR_TRY(storage->look());
    WEIR_TRY(storage->load());
    WEIR_TRY(storage->begin_journal());
    return storage;
}

Result<std::unique_ptr<DiskStorage>> DiskStorage::create(checkpoint::Disk& disk,
                                                         const std::string& folder, uint64_t group,
                                                         uint64_t replica) {
    std::unique_ptr<DiskStorage> storage(new DiskStorage(disk, folder, group, replica));
    WEIR_TRY(storage->look());
    WEIR_TRY(storage->begin_journal());
    return storage;
}

Status DiskStorage::look() {
    WEIR_ASSIGN(const std::vector<std::string> names, disk_.list(folder_));
    for (const std::string& name : names) {
        if (!name.starts_with(kJournalPrefix)) continue;
        stale_.push_back(name);
        number_ = std::max(number_, journal_number(name).value_or(0));
    }
    return {};
}

Status DiskStorage::load() {
    if (number_ == 0) return {};
    const std::string path = fmt::format("{}/{}", folder_, journal_name(number_));
    WEIR_ASSIGN(const std::vector<std::byte> bytes, disk_.read(path, kJournalBytesMax));
    WEIR_ASSIGN(state_, read_journal(path, group_, replica_, bytes));
    return {};
}

Status DiskStorage::begin_journal() {
    const std::string name = journal_name(number_ + 1);
    const std::string path = fmt::format("{}/{}", folder_, name);
    const std::string part = path + std::string(kUnfinishedSuffix);
    if (std::erase(stale_, name + std::string(kUnfinishedSuffix)) > 0) WEIR_TRY(disk_.remove(part));
    writer_ = std::make_unique<JournalWriter>(group_, replica_, state_);
    WEIR_ASSIGN(file_, disk_.create(part));
    WEIR_TRY(write());
    WEIR_TRY(disk_.rename(part, path));
    WEIR_TRY(disk_.sync_folder(folder_));
    ++number_;
    for (const std::string& stale : stale_)
        WEIR_TRY(disk_.remove(fmt::format("{}/{}", folder_, stale)));
    stale_ = {name};
    return {};
}

Status DiskStorage::write() {
    WEIR_TRY(file_->write(writer_->take()));
    return file_->sync();
}

Status DiskStorage::note(Status status) {
    if (!status) failure_ = status;
    return status;
}

Status DiskStorage::promise(const Promise& promise) {
    WEIR_TRY(failure_);
    writer_->promise(promise);
    state_.promise = promise;
    return note(write());
}

Status DiskStorage::append(std::vector<Entry> entries) {
    WEIR_TRY(failure_);
    for (Entry& entry : entries) {
        writer_->append(state_.last() + 1, entry);
        state_.entries.push_back(std::move(entry));
    }
    return note(write());
}

Status DiskStorage::truncate(uint64_t index) {
    WEIR_TRY(failure_);
    writer_->truncate(index);
    state_.truncate(index);
    return note(write());
}

Status DiskStorage::put_snapshot(Snapshot snapshot, uint64_t kept) {
    WEIR_TRY(failure_);
    state_.put_snapshot(std::move(snapshot), kept);
    return note(begin_journal());
}

}  // namespace weir::consensus

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SimDisk: files in memory that forget at a crash what was not synced, and fail when told to.

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "lib/checkpoint/disk.h"

namespace weir::testing {

/// Every create, write, sync, rename, remove and sync_folder is a step. From the step of fail_at() on
/// all of them fail, as if the machine had lost its power in the middle of that one; crash() then
/// shows what is on the disk afterwards: of what was not synced, any part. With fail_once_at() only
/// that step fails. Paths are FOLDER/NAME, and every folder exists.
///
/// Thread: one
class SimDisk final : public checkpoint::Disk {
public:
    [[nodiscard]] uint64_t steps() const noexcept { return steps_; }

    /// Counted from now on, from 1.
    void fail_at(uint64_t step) {
        steps_ = 0;
        fail_at_ = step;
        fails_once_ = false;
    }

    /// The same.
    void fail_once_at(uint64_t step) {
        fail_at(step);
        fails_once_ = true;
    }

    /// No step fails any more; what failed has not come to be.
    void heal() { fail_at_.reset(); }

    /// The step at which it was to fail has come.
    [[nodiscard]] bool has_failed() const { return fail_at_ && steps_ >= *fail_at_; }

    /// A full disk: writes fail, and everything else goes on.
    void fill() { is_full_ = true; }

    void empty_out() { is_full_ = false; }

    /// The power is back.
    void crash(uint64_t seed) {
        Random random(seed);
        fail_at_.reset();
        // Each change of a name since the last sync_folder() may be there or not.
        std::map<std::string, std::shared_ptr<Content>> after = durable_names_;
        for (const auto& [path, content] : pending_) {
            if (random() % 2 == 0) continue;
            if (content != nullptr) {
                after[path] = content;
            } else {
                after.erase(path);
            }
        }
        names_ = after;
        durable_names_ = std::move(after);
        pending_.clear();
        for (const auto& [path, content] : names_)
            content->lose(random);
    }

    [[nodiscard]] Result<std::unique_ptr<checkpoint::NewFile>> create(
        const std::string& path) override {
        if (names_.contains(path)) return failed(path, Errc::kAlreadyExists, EEXIST);
        const bool fails = is_failing();
        if (fails && fails_fully_) return failed(path, Errc::kIo, EIO);
        auto content = std::make_shared<Content>();
        name(path, content);
        if (fails) return failed(path, Errc::kIo, EIO);
        return std::unique_ptr<checkpoint::NewFile>(std::make_unique<File>(*this, path, content));
    }

    [[nodiscard]] Result<std::vector<std::byte>> read(const std::string& path,
                                                      uint64_t bytes_max) override {
        const auto found = names_.find(path);
        if (found == names_.end()) return failed(path, Errc::kNotFound, ENOENT);
        if (found->second->bytes.size() > bytes_max) return failed(path, Errc::kOutOfRange, 0);
        return found->second->bytes;
    }

    [[nodiscard]] Result<uint64_t> size(const std::string& path) override {
        const auto found = names_.find(path);
        if (found == names_.end()) return failed(path, Errc::kNotFound, ENOENT);
        return found->second->bytes.size();
    }

    [[nodiscard]] Result<std::vector<std::string>> list(const std::string& folder) override {
        std::vector<std::string> found;
        for (const auto& [path, content] : names_) {
            if (path.starts_with(folder + "/")) found.push_back(path.substr(folder.size() + 1));
        }
        return found;
    }

    [[nodiscard]] Status rename(const std::string& from, const std::string& to) override {
        if (!names_.contains(from)) return failed(from, Errc::kNotFound, ENOENT);
        if (names_.contains(to)) return failed(to, Errc::kAlreadyExists, EEXIST);
        const bool fails = is_failing();
        if (fails && fails_fully_) return failed(to, Errc::kIo, EIO);
        const std::shared_ptr<Content> content = names_[from];
        name(from, nullptr);
        name(to, content);
        return fails ? Status(failed(to, Errc::kIo, EIO)) : Status();
    }

    [[nodiscard]] Status remove(const std::string& path) override {
        if (!names_.contains(path)) return failed(path, Errc::kNotFound, ENOENT);
        if (is_failing()) return failed(path, Errc::kIo, EIO);
        name(path, nullptr);
        return {};
    }

    [[nodiscard]] Status sync_folder(const std::string& folder) override {
        if (is_failing()) return failed(folder, Errc::kIo, EIO);
        durable_names_ = names_;
        pending_.clear();
        return {};
    }

    /// Replaces the content of a file, as damage does; for tests that damage files.
    void damage(const std::string& path, std::vector<std::byte> bytes) {
        auto content = std::make_shared<Content>();
        content->synced = bytes.size();
        content->bytes = std::move(bytes);
        names_[path] = content;
        durable_names_[path] = content;
    }

private:
    struct Content {
        std::vector<std::byte> bytes;
        size_t synced = 0;

        /// Of what was not synced, the beginning stays, and behind it zeros may.
        void lose(Random& random) {
            const size_t rest = bytes.size() - synced;
            const size_t kept = synced + (rest == 0 ? 0 : random() % (rest + 1));
            std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(kept), bytes.end(), std::byte{0});
            if (random() % 2 == 0) bytes.resize(kept);
            synced = bytes.size();
        }
    };

    class File final : public checkpoint::NewFile {
    public:
        File(SimDisk& disk, std::string path, std::shared_ptr<Content> content)
            : disk_(disk), path_(std::move(path)), content_(std::move(content)) {}

        [[nodiscard]] Status write(std::span<const std::byte> bytes) override {
            const bool fails = disk_.is_failing() || disk_.is_full_;
            if (fails) bytes = bytes.first(bytes.size() / 2);
            content_->bytes.insert(content_->bytes.end(), bytes.begin(), bytes.end());
            return fails ? Status(failed(path_, Errc::kIo, disk_.is_full_ ? ENOSPC : EIO))
                         : Status();
        }

        [[nodiscard]] Status sync() override {
            if (disk_.is_failing()) return failed(path_, Errc::kIo, EIO);
            content_->synced = content_->bytes.size();
            return {};
        }

    private:
        SimDisk& disk_;
        std::string path_;
        std::shared_ptr<Content> content_;
    };

    [[nodiscard]] static Error failed(const std::string& path, Errc code, int reason) {
        return {code, path + ": simulated", reason};
    }

    void name(const std::string& path, const std::shared_ptr<Content>& content) {
        if (content != nullptr) {
            names_[path] = content;
        } else {
            names_.erase(path);
        }
        pending_.emplace_back(path, content);
    }

    /// The step at which it fails may have taken place all the same; those behind it do not.
    [[nodiscard]] bool is_failing() {
        ++steps_;
        fails_fully_ = fail_at_ && steps_ > *fail_at_ && !fails_once_;
        return fails_fully_ || steps_ == fail_at_;
    }

    std::map<std::string, std::shared_ptr<Content>> names_;
    std::map<std::string, std::shared_ptr<Content>> durable_names_;
    std::vector<std::pair<std::string, std::shared_ptr<Content>>> pending_;  // null: removed
    std::optional<uint64_t> fail_at_;
    bool fails_once_ = false;
    uint64_t steps_ = 0;
    bool fails_fully_ = false;
    bool is_full_ = false;
};

}  // namespace weir::testing

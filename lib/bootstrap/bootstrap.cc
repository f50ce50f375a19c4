// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/bootstrap.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "lib/bootstrap/rendezvous/open_rendezvous.h"

namespace weir {
namespace {

class BootstrapAlone final : public Bootstrap {
public:
    [[nodiscard]] uint32_t rank() const noexcept override { return 0; }

    [[nodiscard]] uint32_t size() const noexcept override { return 1; }

    [[nodiscard]] std::string_view name() const noexcept override { return "in-process"; }

    Status put(std::string_view key, std::string_view value) override {
        WEIR_TRY(boot::check_entry(key, value));
        waiting_.insert_or_assign(std::string(key), std::string(value));
        return {};
    }

    Status exchange(uint64_t /*deadline_ns*/) override {
        for (auto& [key, value] : waiting_)
            visible_.insert_or_assign(key, std::move(value));
        waiting_.clear();
        return {};
    }

    Result<std::string> get(uint32_t rank, std::string_view key) override {
        const auto found = visible_.find(key);
        if (rank != 0 || found == visible_.end()) {
            return Error(Errc::kNotFound, fmt::format("rank {} published no {}", rank, key));
        }
        return found->second;
    }

    Status finish() override { return {}; }

private:
    std::map<std::string, std::string, std::less<>> waiting_;
    std::map<std::string, std::string, std::less<>> visible_;
};

}  // namespace

Result<std::unique_ptr<boot::OpenRendezvous>> Bootstrap::stay_open(const Contact& /*contact*/) {
    WEIR_TRY(finish());
    return std::unique_ptr<boot::OpenRendezvous>();
}

std::unique_ptr<Bootstrap> make_bootstrap_alone() {
    return std::make_unique<BootstrapAlone>();
}

Result<uint64_t> join_deadline_ns(const Config& config, const Clock& clock) {
    WEIR_ASSIGN(const uint64_t timeout_s, config.number("WEIR_JOIN_TIMEOUT_S"));
    return clock.now_ns() + timeout_s * kSecond;
}

namespace boot {

Status check_entry(std::string_view key, std::string_view value) {
    const bool plain = std::all_of(key.begin(), key.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_' || c == '.';
    });
    if (key.empty() || key.size() > Bootstrap::kKeyBytesMax || !plain) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("bootstrap key '{}': must be 1 to {} letters, digits, '-', '_', '.'",
                        key.substr(0, 80), Bootstrap::kKeyBytesMax));
    }
    if (value.size() > Bootstrap::kValueBytesMax) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("bootstrap value of {}: {} bytes, at most {} are allowed", key,
                                 value.size(), Bootstrap::kValueBytesMax));
    }
    return {};
}

std::string rank_list(const std::vector<uint32_t>& ranks) {
    constexpr size_t kShown = 8;
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    const size_t shown = std::min(ranks.size(), kShown);
    for (size_t i = 0; i < shown; ++i) {
        if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
        text += std::to_string(ranks[i]);
    }
    if (ranks.size() > shown) text += fmt::format(" and {} more", ranks.size() - shown);
    return text;
}

int poll_slice_ms(const Clock& clock, uint64_t deadline_ns) noexcept {
    const uint64_t now_ns = clock.now_ns();
    if (now_ns >= deadline_ns) return 0;
    const uint64_t left_ms = (deadline_ns - now_ns + kMillisecond - 1) / kMillisecond;
    return static_cast<int>(std::min<uint64_t>(left_ms, 100));
}

}  // namespace boot
}  // namespace weir

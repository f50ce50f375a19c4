// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The side of the rendezvous of every rank but 0: connects, proves that it knows the secret,
/// puts its entries, and waits for those of the other ranks.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/bootstrap/rendezvous/rendezvous.h"
#include "lib/bootstrap/rendezvous/rendezvous_call.h"

namespace weir::boot {

/// Thread: one.
class RendezvousClient final : public Bootstrap {
public:
    RendezvousClient(RendezvousOptions options, const Clock& clock)
        : clock_(clock), options_(std::move(options)), call_(options_.at, options_.secret, clock) {}

    [[nodiscard]] uint32_t rank() const noexcept override { return options_.rank; }

    [[nodiscard]] uint32_t size() const noexcept override { return options_.size; }

    [[nodiscard]] std::string_view name() const noexcept override { return "rendezvous"; }

    Status put(std::string_view key, std::string_view value) override;
    Status exchange(uint64_t deadline_ns) override;
    Result<std::string> get(uint32_t rank, std::string_view key) override;
    Status finish() override;

    [[nodiscard]] transport::SocketAddress met_at() const override { return met_at_; }

private:
    /// Connects and greets until rank 0 admits or refuses this rank, or the deadline has passed.
    [[nodiscard]] Status join(uint64_t deadline_ns);
    [[nodiscard]] Status commit_and_wait(uint64_t deadline_ns);
    [[nodiscard]] Error too_late(const std::string& why) const;

    const Clock& clock_;
    RendezvousOptions options_;
    RendezvousCall call_;
    std::vector<std::pair<std::string, std::string>> entries_;  // not yet sent
    std::map<std::pair<uint32_t, std::string>, std::string> values_;
    transport::SocketAddress met_at_;
    uint32_t round_ = 1;
    bool over_ = false;  // failed or finished
};

}  // namespace weir::boot

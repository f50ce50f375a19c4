// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// HeldFailures: replies that say that another worker died or gave up, held for a moment.

#include <cstdint>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace weir {

/// The other worker may have given up because of a dead server that this client is about to
/// notice. The dead server is the error that a person needs. So such a reply is held for
/// kHoldNs; if a server is lost meanwhile, that is the error.
///
/// Thread: the client's
class HeldFailures {
public:
    /// How much later than another worker this one may notice that a server is dead.
    static constexpr uint64_t kHoldNs = 20 * kMillisecond;

    struct Failure {
        uint64_t request = 0;
        Status error;
    };

    void hold(uint64_t request, Status error, uint64_t now_ns) {
        if (failures_.empty()) since_ns_ = now_ns;
        failures_.push_back({request, std::move(error)});
    }

    /// A server was lost: that is why the other worker failed.
    void blame(const Status& server_lost) {
        for (Failure& failure : failures_)
            failure.error = server_lost;
    }

    /// Those that end their requests now, all or none.
    [[nodiscard]] std::vector<Failure> take_due(uint64_t now_ns) {
        if (failures_.empty() || now_ns - since_ns_ < kHoldNs) return {};
        return std::exchange(failures_, {});
    }

    /// When that is; never if there are none.
    [[nodiscard]] uint64_t due_ns() const noexcept {
        return failures_.empty() ? ~uint64_t{0} : since_ns_ + kHoldNs;
    }

    [[nodiscard]] bool empty() const noexcept { return failures_.empty(); }

private:
    std::vector<Failure> failures_;
    uint64_t since_ns_ = 0;  ///< when the first one came
};

}  // namespace weir

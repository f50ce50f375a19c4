// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// DoubtfulEndpoint: closes of connections that peers do not confirm.

#include "tests/passing_endpoint.h"

namespace weir::testing {

/// An endpoint whose peers do not confirm the end of their connections: it says so, or waits for them
/// and says nothing.
class DoubtfulEndpoint final : public PassingEndpoint {
public:
    explicit DoubtfulEndpoint(std::unique_ptr<Endpoint> inner, bool waits = false)
        : PassingEndpoint(std::move(inner)), waits_(waits) {}

    [[nodiscard]] size_t poll(std::span<Completion> completions) override {
        const size_t count = inner().poll(completions);
        size_t shown = 0;
        for (transport::Completion c : completions.first(count)) {
            c.memory_in_doubt = c.event == transport::Event::kClosed;
            if (c.memory_in_doubt && waits_) continue;
            completions[shown++] = c;
        }
        return shown;
    }

private:
    bool waits_;
};

}  // namespace weir::testing

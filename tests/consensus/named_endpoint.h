// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// NamedEndpoint: an endpoint of a replica, whose peers are known by their numbers ("replica:2") whatever
/// addresses they have since they were started last, and whose messages to a peer may be lost or held back in
/// that direction only.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/passing_endpoint.h"

namespace weir::testing {

enum class Way : uint8_t {
    kOpen,
    kLosing,   ///< what is sent is lost
    kHolding,  ///< what is sent arrives once the way is open again
};

/// What all endpoints of a group know.
struct Ways {
    std::map<std::string, std::string> addresses;  ///< by name
    std::map<std::pair<std::string, std::string>, Way> ways;

    [[nodiscard]] Way between(const std::string& from, const std::string& to) const {
        const auto found = ways.find({from, to});
        return found == ways.end() ? Way::kOpen : found->second;
    }
};

class NamedEndpoint final : public PassingEndpoint {
public:
    NamedEndpoint(std::unique_ptr<Endpoint> inner, std::string own, const Ways& ways)
        : PassingEndpoint(std::move(inner)), own_(std::move(own)), ways_(ways) {}

    [[nodiscard]] Result<ConnectionId> connect(std::string_view name) override {
        const auto found = ways_.addresses.find(std::string(name));
        if (found == ways_.addresses.end())
            return Error(Errc::kUnavailable, "nobody has that name yet");
        Result<ConnectionId> begun = inner().connect(found->second);
        if (begun) targets_[*begun].name = name;
        return begun;
    }

    [[nodiscard]] Post send(ConnectionId connection, Parts parts) override {
        Target& target = targets_[connection];
        const Way way = ways_.between(own_, target.name);
        if (way == Way::kLosing) return Post::kPosted;
        if (way == Way::kOpen && target.held.empty()) return inner().send(connection, parts);
        std::vector<std::byte> message;
        for (const auto part : parts)
            message.insert(message.end(), part.begin(), part.end());
        target.held.push_back(std::move(message));
        return Post::kPosted;
    }

    [[nodiscard]] size_t poll(std::span<Completion> completions) override {
        for (auto& [connection, target] : targets_) {
            if (ways_.between(own_, target.name) != Way::kOpen) continue;
            while (!target.held.empty()) {
                const std::span<const std::byte> part = target.held.front();
                if (inner().send(connection, Parts(&part, 1)) == Post::kNotNow) break;
                target.held.pop_front();
            }
        }
        return inner().poll(completions);
    }

private:
    struct Target {
        std::string name;
        std::deque<std::vector<std::byte>> held;
    };

    std::string own_;
    const Ways& ways_;
    std::map<ConnectionId, Target> targets_;
};

}  // namespace weir::testing

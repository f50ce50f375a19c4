// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TaskCluster: workers whose calls wait for each other, on simulated time.

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/worker/client_state.h"
#include "tests/cluster/sim_cluster.h"

namespace weir::test {

using CallId = ClientCore::CallId;

inline constexpr std::array<double, 1> kOne{1};

/// Workers with a table of doubles.
class TaskCluster : public StartedCluster {
public:
    explicit TaskCluster(uint32_t worker_count = 1)
        : StartedCluster(1, one_shard(worker_count), sparse_table("numbers", ValueType::kFloat64)) {
    }

    CallId push(uint64_t key, const CallOptions& options = {}, uint32_t worker = 0) {
        keys_.push_back(std::make_unique<uint64_t>(key));
        return workers[worker]->push(table, std::span(keys_.back().get(), 1),
                                     std::as_bytes(std::span(kOne)), options);
    }

    CallId push_after(uint64_t key, const std::vector<TaskId>& after) {
        return push(key, {.after = after});
    }

    /// Of an iteration.
    CallId part(uint64_t iteration, const std::vector<TaskId>& after = {}, uint32_t worker = 0) {
        CallOptions options;
        options.iteration = iteration;
        options.after = after;
        return push(7, options, worker);
    }

    CallId pull(uint64_t key, double& out, const std::vector<TaskId>& after = {}) {
        keys_.push_back(std::make_unique<uint64_t>(key));
        return client().pull(table, std::span(keys_.back().get(), 1),
                             std::as_writable_bytes(std::span(&out, 1)), {.after = after});
    }

    /// A push that fails at the server: its iteration was not announced. It ends only when the
    /// other worker's part has, or at its deadline.
    CallId failing(uint64_t deadline_ns = kSecond) {
        CallOptions options;
        options.iteration = 1;
        options.deadline_ns = deadline_ns;
        return push(7, options);
    }

    TaskId name(CallId call) { return client().name_task(call); }

    /// In the graph.
    size_t tasks_left() {
        (void)client().poll();  // takes note of what was taken
        return client().graph().count();
    }

    double value(uint64_t key) {
        double out = -1;
        REQUIRE(finish(0, pull(key, out)).has_value());
        return out;
    }

private:
    std::vector<std::unique_ptr<uint64_t>> keys_;
};

inline void check_failed(const Status& status, Errc code, const std::string& text) {
    REQUIRE_FALSE(status.has_value());
    INFO(status.error().message());
    CHECK(status.code() == code);
    CHECK(status.error().message().find(text) != std::string::npos);
}

}  // namespace weir::test

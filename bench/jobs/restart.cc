// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/restart.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "lib/base/random.h"
#include "lib/worker/table.h"

namespace weir::bench {
namespace {

using Numbers = std::vector<uint64_t>;

/// A table whose keys lie in pages. The n-th push, from 1, adds to each key of page n % pages its weight.
struct PagedTable {
    const char* name;
    Layout layout;
    bool has_iterations;
    uint64_t pages;
    uint64_t page_keys;
};

constexpr std::array<PagedTable, 3> kTables = {{
    {"restart.dense", Layout::kDense, true, 64, 32'768},
    {"restart.sparse", Layout::kSparse, true, 50, 1000},
    {"restart.plain", Layout::kDense, false, 512, 512},
}};
constexpr uint64_t kBriefShare = 16;  // of the keys
constexpr uint64_t kPlainPerTurn = 8;

/// The share of 1 .. pushes that goes to a page.
uint64_t pushes_of(uint64_t page, uint64_t pages, uint64_t pushes) {
    if (page == 0) return pushes / pages;
    return pushes < page ? 0 : (pushes - page) / pages + 1;
}

/// What a push adds to a key of the page: 1 to the first one.
uint64_t weight_of(uint64_t i) {
    return i == 0 ? 1 : mix64(i);
}

class RestartTable {
public:
    RestartTable(const PagedTable& plan, bool is_brief)
        : plan_(plan), page_keys_(is_brief ? plan.page_keys / kBriefShare : plan.page_keys) {}

    [[nodiscard]] Status prepare(Client& client) {
        const uint64_t key_count = plan_.pages * page_keys_;
        WEIR_ASSIGN(table_, client.create_table<uint64_t>(
                                plan_.name, {.layout = plan_.layout, .key_count = key_count}));
        WEIR_ASSIGN(values_, client.make_buffer<uint64_t>(page_keys_));
        for (uint64_t i = 0; plan_.layout == Layout::kSparse && i < key_count; ++i)
            keys_.push_back(mix64(i + 1));
        std::ranges::sort(keys_);
        if (plan_.has_iterations) pushes_ = table_->next_iteration().value_or(1) - 1;
        return {};
    }

    /// Reads how many pushes the table has, and whether it has each of them once.
    [[nodiscard]] Status look() {
        Numbers found;
        for (uint64_t page = 0; page < plan_.pages; ++page) {
            WEIR_TRY(pull(page));
            found.push_back(values_[0]);
            for (uint64_t i = 0; i < page_keys_; ++i) {
                if (values_[i] != found.back() * weight_of(i)) return wrong(page, i);
            }
        }
        const uint64_t pushes = std::accumulate(found.begin(), found.end(), uint64_t{0});
        for (uint64_t page = 0; page < plan_.pages; ++page) {
            if (found[page] != pushes_of(page, plan_.pages, pushes)) return wrong(page, 0);
        }
        if (plan_.has_iterations && pushes != pushes_)
            return Error(Errc::kProtocol, fmt::format("{} has {} iterations, and the pushes of {}",
                                                      plan_.name, pushes_, pushes));
        pushes_ = pushes;
        return {};
    }

    /// The next push. In one of an iteration each worker has a part of the page.
    [[nodiscard]] Status push(const Client& client) {
        const uint64_t page = ++pushes_ % plan_.pages;
        const uint64_t share = plan_.has_iterations ? client.worker_count() : 1;
        const uint64_t worker = plan_.has_iterations ? client.worker() : 0;
        const uint64_t first = page_keys_ * worker / share;
        const uint64_t count = page_keys_ * (worker + 1) / share - first;
        const std::span<uint64_t> values = values_.span().first(count);
        for (uint64_t i = 0; i < count; ++i)
            values[i] = weight_of(first + i);
        PushOptions options;
        if (plan_.has_iterations) options.iteration = pushes_;
        const uint64_t begin = page * page_keys_ + first;
        if (keys_.empty())
            return table_->push(KeyRange{begin, begin + count}, values, options).wait();
        return table_->push(std::span(keys_).subspan(begin, count), values, options).wait();
    }

    /// Those that were acknowledged, or are in the checkpoint.
    [[nodiscard]] uint64_t pushes() const { return pushes_; }

    [[nodiscard]] const char* name() const { return plan_.name; }

    [[nodiscard]] bool has_iterations() const { return plan_.has_iterations; }

private:
    [[nodiscard]] Status pull(uint64_t page) {
        const uint64_t begin = page * page_keys_;
        if (keys_.empty())
            return table_->pull(KeyRange{begin, begin + page_keys_}, values_.span()).wait();
        return table_->pull(std::span(keys_).subspan(begin, page_keys_), values_.span()).wait();
    }

    [[nodiscard]] Status wrong(uint64_t page, uint64_t i) const {
        return Error(
            Errc::kProtocol,
            fmt::format("{}: key {} of page {} has {}, which is not the sum of pushes that "
                        "came one after the other",
                        plan_.name, i, page, values_[i]));
    }

    PagedTable plan_;
    uint64_t page_keys_;
    Numbers keys_;  ///< of a sparse table
    std::optional<Table<uint64_t>> table_;
    Buffer<uint64_t> values_;
    uint64_t pushes_ = 0;
};

void say(std::string_view what, uint64_t number, std::span<const RestartTable> tables) {
    std::string line = fmt::format("{{\"{}\": {}", what, number);
    for (const RestartTable& table : tables)
        line += fmt::format(", \"{}\": {}", table.name(), table.pushes());
    fmt::print("{}}}\n", line);
    std::fflush(stdout);
}

/// Says which checkpoint was completed last: the one after it may have begun, and no other.
Status say_seen(Client& client, std::span<const RestartTable> tables) {
    WEIR_ASSIGN(const std::vector<JobEvent> events, client.take_events());
    uint64_t last = 0;
    for (const JobEvent& event : events)
        last = event.kind == JobEvent::Kind::kCheckpoint ? event.number : last;
    if (last != 0) say("seen", last, tables);
    return {};
}

}  // namespace

Status bench_restart(Client& client, const BenchFlags& flags) {
    const bool is_first = client.worker() == 0;
    std::vector<RestartTable> tables;
    for (const PagedTable& plan : kTables) {
        tables.emplace_back(plan, flags.brief);
        WEIR_TRY(tables.back().prepare(client));
    }
    if (is_first) {
        for (RestartTable& table : tables)
            WEIR_TRY(table.look());
        WEIR_ASSIGN(const ResumedFrom from, client.resumed_from());
        say("resumed", from.checkpoint, tables);
    }
    WEIR_TRY(client.barrier());
    for (uint64_t turn = 0; flags.turns == 0 || turn < flags.turns; ++turn) {
        for (RestartTable& table : tables) {
            for (uint64_t i = 0; table.has_iterations() ? i < 1 : is_first && i < kPlainPerTurn;
                 ++i)
                WEIR_TRY(table.push(client));
        }
        if (is_first) WEIR_TRY(say_seen(client, tables));
    }
    return {};
}

}  // namespace weir::bench

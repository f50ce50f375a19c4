// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/jobs/status_report.h"

#include <algorithm>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "lib/base/counted.h"
#include "lib/base/json_text.h"
#include "lib/base/machine/os_limits.h"
#include "tools/weir/filter_report.h"
#include "tools/weir/jobs/learning_report.h"

namespace weir::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kNamedMax = 32;

/// Of one server.
struct Sum {
    uint32_t segments = 0;
    uint32_t backups = 0;
    double share = 0;
    uint64_t keys = 0;
    uint64_t bytes = 0;
    size_t silent = 0;  ///< shards that have not answered
};

Sum sum_of(const JobStatus::Server& server) {
    Sum sum;
    for (const JobStatus::Shard& shard : server.shards) {
        sum.segments += shard.segments;
        sum.backups += shard.backups;
        sum.share += shard.share;
        sum.keys += shard.keys;
        sum.bytes += shard.bytes;
        sum.silent += shard.answered ? 0 : 1;
    }
    return sum;
}

std::string list_text(const std::vector<uint32_t>& numbers) {
    std::string text;
    for (const uint32_t number : numbers)
        text += (text.empty() ? "" : ", ") + std::to_string(number);
    return text;
}

/// Of ascending numbers: "0-3, 7"; "none".
std::string ranges_text(const std::vector<uint32_t>& numbers) {
    if (numbers.empty()) return "none";
    std::string text;
    for (size_t i = 0, end = 0; i < numbers.size(); i = end) {
        for (end = i + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;)
            ++end;
        text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
        if (end - i > 1) text += fmt::format("-{}", numbers[end - 1]);
    }
    return text;
}

/// The dead servers with which parameters are lost, or those with which none are.
std::string dead_text(const JobStatus& status, bool held_parameters) {
    std::string text;
    for (const JobStatus::DeadServer& server : status.dead) {
        if (server.held_parameters != held_parameters) continue;
        text += fmt::format("{}server {}, rank {}", text.empty() ? "" : "; ", server.number,
                            server.rank);
    }
    return text;
}

/// What keeps segments from having as many copies as they are to have; empty: they are being made, or will be.
std::string shortage_text(const JobStatus& status) {
    const size_t count = status.servers.size();
    if (count > status.replicas) return {};
    const std::string are_left =
        count == 1 ? "one server is left" : fmt::format("{} servers are left", count);
    return fmt::format(": {}, let {} join", are_left,
                       count == status.replicas ? "another" : "others");
}

std::string copies_text(const JobStatus& status) {
    if (status.replicas == 0) return "copies: none, so the death of a server ends the job\n";
    const bool is_one = status.replicas == 1;
    if (const std::string shortage = shortage_text(status); !shortage.empty()) {
        const std::string copying =
            status.segments_copying == 0
                ? ""
                : fmt::format(", of which {} are being copied", status.segments_copying);
        return fmt::format("copies: {} of each segment {} wanted; {} of {} have {}{}{}\n",
                           status.replicas, is_one ? "is" : "are", status.segments_to_copy,
                           status.segments, is_one ? "none" : "fewer", copying, shortage);
    }
    std::string text = fmt::format("copies: {} of each segment, on {}", status.replicas,
                                   is_one ? "another server" : "other servers");
    if (status.segments_to_copy > 0) {
        text += fmt::format("; {} of {} segments have {} yet, of which {} are being copied",
                            status.segments_to_copy, status.segments, is_one ? "none" : "fewer",
                            status.segments_copying);
    }
    if (status.copies_made > 0 && status.segments_to_copy > 0)
        text += fmt::format("; {} were made", status.copies_made);
    return text + "\n";
}

std::string moves_text(const JobStatus& status) {
    if (status.segments_to_move == 0) return {};
    std::string text =
        fmt::format("moving: {} of {} segments moved, {:.1f} % of {:.1f} % of the ring",
                    status.segments_moved, status.segments_moved + status.segments_to_move,
                    status.share_moved * 100, (status.share_moved + status.share_to_move) * 100);
    if (status.segments_complete > 0) {
        text += fmt::format("; {} more, {:.1f} %, are copied and about to be handed over",
                            status.segments_complete, status.share_complete * 100);
    }
    return text + "\n";
}

/// As KiB, if that is not much.
std::string agreed_text(uint64_t bytes) {
    const double kib = static_cast<double>(bytes) / 1024.0;
    return kib < 1024.0 ? fmt::format("{:.1f} KiB", kib) : fmt::format("{:.1f} MiB", kib / 1024.0);
}

std::string managers_text(const JobStatus::Managers& managers) {
    if (managers.count == 1) return fmt::format("manager: one, in rank {}\n", managers.rank);
    const std::string missing =
        managers.heard < managers.count
            ? fmt::format("; {} of them heard of within a second", managers.heard)
            : "";
    return fmt::format(
        "managers: {}, of which rank {} leads, in term {}{}; they have agreed on {}\n",
        managers.count, managers.rank, managers.term, missing, agreed_text(managers.log_bytes));
}

std::string checkpoints_text(const JobStatus::Checkpoints& is) {
    std::string text;
    if (is.resumed_from != 0)
        text += fmt::format("the job goes on from checkpoint {}\n", is.resumed_from);
    if (!is.is_on) return text;
    text += is.last_number == 0
                ? std::string("checkpoints: none yet")
                : fmt::format("checkpoints: the last is {}, of {:.1f} s ago, written in {:.2f} s",
                              is.last_number, static_cast<double>(is.last_age_ms) / 1000,
                              static_cast<double>(is.last_duration_ms) / 1000);
    if (is.is_under_way) text += "; one is being written";
    if (!is.last_failure.empty()) text += fmt::format("; then one failed: {}", is.last_failure);
    text += "\n";
    if (is.rest_wait_ms != 0) {
        text += fmt::format(
            "the next checkpoint has been due for {:.1f} s: it waits until copies are made and "
            "segments have moved\n",
            static_cast<double>(is.rest_wait_ms) / 1000);
    }
    return text;
}

Json checkpoints_json(const JobStatus::Checkpoints& is) {
    const auto number = [](uint64_t value) { return value == 0 ? Json(nullptr) : Json(value); };
    const bool is_any = is.last_number != 0;
    return {{"on", is.is_on},
            {"under_way", is.is_under_way},
            {"last", number(is.last_number)},
            {"last_age_ms", is_any ? Json(is.last_age_ms) : Json(nullptr)},
            {"last_duration_ms", is_any ? Json(is.last_duration_ms) : Json(nullptr)},
            {"last_failure", is.last_failure.empty() ? Json(nullptr) : Json(is.last_failure)},
            {"rest_wait_ms", number(is.rest_wait_ms)},
            {"resumed_from", number(is.resumed_from)}};
}

/// How long a worker keeps its part of the work if nothing is heard of its process.
std::string lease_text(const JobStatus::Worker& worker) {
    if (worker.lease_left_ms == JobStatus::kUnknown) return {};
    return fmt::format(" (lease: {:.1f} s)", static_cast<double>(worker.lease_left_ms) / 1000);
}

/// Who has which part of the work, and what happens when one is lost.
std::string workers_text(const JobStatus& status) {
    const JobStatus::Work& work = status.work;
    std::string text = fmt::format("when a worker is lost: {}\n", to_string(work.on_worker_loss));
    if (work.round == 0) return text;
    std::vector<uint32_t> without;
    std::string shares;
    size_t named = 0;
    for (const JobStatus::Worker& worker : status.workers) {
        if (!worker.has_work) {
            without.push_back(worker.number);
        } else if (++named <= kNamedMax) {
            shares += fmt::format("; worker {}: {}{}", worker.number, ranges_text(worker.pieces),
                                  lease_text(worker));
        }
    }
    return text + fmt::format("work: {} pieces, given out {}{}{}{}\n", work.piece_count,
                              counted(work.round, "time"), shares,
                              without.empty() ? "" : "; no share of it: workers ",
                              list_text(without));
}

/// The description is JSON if it is that of a `weir lr`.
Json work_json(const JobStatus::Work& work) {
    Json description = Json::parse(work.description, nullptr, false);
    if (description.is_discarded()) description = work.description;
    return {{"on_worker_loss", to_string(work.on_worker_loss)},
            {"round", work.round},
            {"pieces", work.piece_count},
            {"description", work.description.empty() ? Json(nullptr) : std::move(description)}};
}

Json known(uint64_t value) {
    return value == JobStatus::kUnknown ? Json(nullptr) : Json(value);
}

Json shard_json(const JobStatus::Shard& shard) {
    const auto told = [&](uint64_t value) { return shard.answered ? Json(value) : Json(nullptr); };
    return {
        {"shard", shard.number},      {"segments", shard.segments},   {"copies", shard.backups},
        {"share", shard.share},       {"answered", shard.answered},   {"keys", told(shard.keys)},
        {"bytes", told(shard.bytes)}, {"pushes", told(shard.pushes)}, {"pulls", told(shard.pulls)}};
}

Json server_json(const JobStatus::Server& server) {
    Json shards = Json::array();
    for (const JobStatus::Shard& shard : server.shards)
        shards.push_back(shard_json(shard));
    const Sum sum = sum_of(server);
    const bool is_known = sum.silent < server.shards.size();
    return {{"server", server.number},
            {"rank", server.rank},
            {"host", server.host.empty() ? Json(nullptr) : Json(server.host)},
            {"weight", server.weight},
            {"leaving", server.is_leaving},
            {"segments", sum.segments},
            {"copies", sum.backups},
            {"learning", learning_json(server)},
            {"silent_ms", server.silent_ms},
            {"heard_ms", known(server.heard_ms)},
            {"lease_left_ms", server.lease_left_ms},
            {"share", sum.share},
            {"keys", is_known ? Json(sum.keys) : Json(nullptr)},
            {"bytes", is_known ? Json(sum.bytes) : Json(nullptr)},
            {"shards", std::move(shards)}};
}

/// Empty: they save nothing, and hold nothing back.
std::string filters_line(const JobStatus& status) {
    const FilterTraffic& filters = status.filters;
    std::string saved = filters_text(filters);
    if (!saved.empty() && filters.rows_pushed > 0)
        saved += fmt::format("; {} of {} rows kept", filters.rows_kept, filters.rows_pushed);
    uint64_t held = 0;
    size_t unknown = 0;
    for (const JobStatus::Worker& worker : status.workers)
        worker.rows_held == JobStatus::kUnknown ? void(++unknown) : void(held += worker.rows_held);
    if (held > 0) saved += fmt::format("; {} held back", counted(held, "row"));
    if (saved.empty()) return {};
    if (unknown > 0 && filters.rows_pushed > 0)
        saved += fmt::format(
            "; {}, and what {} held back is not known",
            unknown == 1 ? "1 worker computes" : fmt::format("{} workers compute", unknown),
            unknown == 1 ? "it has" : "they have");
    return fmt::format("filters: {}\n", saved.substr(2));
}

}  // namespace

std::string status_text(const JobStatus& status) {
    std::string text =
        fmt::format("view {}: {}, {}, {}\n", status.epoch, counted(status.servers.size(), "server"),
                    counted(status.workers.size(), "worker"), counted(status.tables, "table"));
    text +=
        "server  rank  shards  segments  copies   share        keys     memory     heard     "
        "lease  host\n";
    for (const JobStatus::Server& server : status.servers) {
        const Sum sum = sum_of(server);
        const bool is_known = sum.silent < server.shards.size();
        text += fmt::format(
            "{:6}  {:4}  {:6}  {:8}  {:6}  {:5.1f} %  {:>10}  {:>9}  {:>8}  {:>8}  {}{}{}{}\n",
            server.number, server.rank, server.shards.size(), sum.segments, sum.backups,
            sum.share * 100, is_known ? std::to_string(sum.keys) : "?",
            is_known ? bytes_text(sum.bytes) : "?",
            server.heard_ms == JobStatus::kUnknown ? "?" : fmt::format("{} ms", server.heard_ms),
            server.lease_left_ms == 0 ? "none" : fmt::format("{} ms", server.lease_left_ms),
            server.host.empty() ? "?" : server.host, server.is_leaving ? "  is leaving" : "",
            server.silent_ms == 0 ? std::string()
                                  : fmt::format("  out of reach for {} ms", server.silent_ms),
            sum.silent == 0   ? ""
            : sum.silent == 1 ? "  1 shard does not answer"
                              : fmt::format("  {} shards do not answer", sum.silent));
    }
    return text + rest_text(status);
}

std::string rest_text(const JobStatus& status) {
    std::string text;
    if (status.share_lost > 0) {
        text += fmt::format("lost: {:.1f} % of the parameters ({})\n", status.share_lost * 100,
                            dead_text(status, true));
    }
    if (const std::string dead = dead_text(status, false); !dead.empty())
        text += fmt::format(
            "replaced, because it died or was out of reach; nothing is lost with it: {}\n", dead);
    text += copies_text(status);
    for (const JobStatus::Server& server : status.servers)
        text += learning_text(server);
    text += managers_text(status.managers);
    text += checkpoints_text(status.checkpoints);
    text += "workers:";
    for (size_t i = 0; i < std::min(status.workers.size(), kNamedMax); ++i)
        text += fmt::format(" {} (rank {})", status.workers[i].number, status.workers[i].rank);
    if (status.workers.size() > kNamedMax)
        text += fmt::format(" and {} more", status.workers.size() - kNamedMax);
    text += "\n";
    text += workers_text(status);
    if (status.joining_servers + status.joining_workers > 0) {
        text += fmt::format("joining: {}, {}\n", counted(status.joining_servers, "server"),
                            counted(status.joining_workers, "worker"));
    }
    text += moves_text(status);
    if (!status.losers.empty()) {
        text += fmt::format("handing over: shards {}\n", list_text(status.losers));
    }
    text += filters_line(status);
    for (const JobStatus::OpenIteration& open : status.open) {
        const size_t unnamed = open.late_count - open.late.size();
        text += fmt::format("table '{}': iteration {} is open{}{}{}\n", open.table, open.iteration,
                            open.late.empty()       ? ""
                            : open.late.size() == 1 ? "; it waits for worker "
                                                    : "; it waits for workers ",
                            list_text(open.late),
                            unnamed == 0 ? "" : fmt::format(" and {} more", unnamed));
    }
    return text;
}

std::string status_json(const JobStatus& status) {
    Json servers = Json::array();
    for (const JobStatus::Server& server : status.servers)
        servers.push_back(server_json(server));
    Json workers = Json::array();
    for (const JobStatus::Worker& worker : status.workers)
        workers.push_back({{"worker", worker.number},
                           {"rank", worker.rank},
                           {"has_work", worker.has_work},
                           {"pieces", worker.pieces},
                           {"heard_ms", known(worker.heard_ms)},
                           {"rows_held", known(worker.rows_held)},
                           {"lease_left_ms", known(worker.lease_left_ms)}});
    Json dead = Json::array();
    for (const JobStatus::DeadServer& server : status.dead)
        dead.push_back({{"server", server.number},
                        {"rank", server.rank},
                        {"held_parameters", server.held_parameters}});
    Json open = Json::array();
    for (const JobStatus::OpenIteration& one : status.open)
        open.push_back({{"table", one.table},
                        {"iteration", one.iteration},
                        {"late", one.late},
                        {"late_count", one.late_count}});
    const Json all = {{"epoch", status.epoch},
                      {"servers", std::move(servers)},
                      {"share_lost", status.share_lost},
                      {"dead_servers", std::move(dead)},
                      {"copies",
                       {{"replicas", status.replicas},
                        {"segments", status.segments},
                        {"segments_to_copy", status.segments_to_copy},
                        {"segments_copying", status.segments_copying},
                        {"copies_made", status.copies_made}}},
                      {"managers",
                       {{"count", status.managers.count},
                        {"leader_rank", status.managers.rank},
                        {"heard", status.managers.heard},
                        {"term", status.managers.term},
                        {"log_bytes", status.managers.log_bytes}}},
                      {"checkpoints", checkpoints_json(status.checkpoints)},
                      {"lease_ms", status.lease_ms},
                      {"workers", std::move(workers)},
                      {"work", work_json(status.work)},
                      {"joining_servers", status.joining_servers},
                      {"joining_workers", status.joining_workers},
                      {"tables", status.tables},
                      {"moves",
                       {{"segments_to_move", status.segments_to_move},
                        {"segments_complete", status.segments_complete},
                        {"segments_moved", status.segments_moved},
                        {"share_to_move", status.share_to_move},
                        {"share_complete", status.share_complete},
                        {"share_moved", status.share_moved},
                        {"handing_over", status.losers}}},
                      {"filters", filters_json(status.filters)},
                      {"open_iterations", std::move(open)}};
    return json_text(all);
}

}  // namespace weir::tools

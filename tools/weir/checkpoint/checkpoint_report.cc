// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/checkpoint/checkpoint_report.h"

#include <ctime>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "lib/base/counted.h"
#include "lib/base/json_text.h"
#include "lib/base/machine/os_limits.h"

namespace weir::tools {
namespace {

using checkpoint::ChunkEntry;
using checkpoint::Manifest;
using Json = nlohmann::ordered_json;

struct Sum {
    uint64_t rows = 0;
    uint64_t bytes = 0;
};

Sum sum_of(std::span<const ChunkEntry> chunks) {
    Sum sum;
    for (const ChunkEntry& chunk : chunks) {
        sum.rows += chunk.row_count;
        sum.bytes += chunk.size_bytes;
    }
    return sum;
}

/// As in ISO 8601, in UTC.
std::string time_text(uint64_t created_ns) {
    const auto seconds = static_cast<std::time_t>(created_ns / 1'000'000'000);
    std::tm parts{};
    char text[32] = "";
    if (::gmtime_r(&seconds, &parts) != nullptr)
        (void)std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

std::string as_of(const Manifest& manifest) {
    return manifest.iteration ? fmt::format("iteration {}", *manifest.iteration) : "an instant";
}

std::string_view layout_of(const TableSchema& table) {
    return table.layout == Layout::kDense ? "dense" : "sparse";
}

Json head_json(const Manifest& manifest) {
    const Sum sum = sum_of(manifest.chunks);
    return {{"checkpoint", manifest.number},
            {"created", time_text(manifest.created_ns)},
            {"iteration", manifest.iteration ? Json(*manifest.iteration) : Json(nullptr)},
            {"rows", sum.rows},
            {"bytes", sum.bytes},
            {"new_bytes", manifest.new_bytes()}};
}

}  // namespace

std::string list_text(std::span<const Manifest> manifests) {
    std::string text =
        "checkpoint  created               as of             tables  chunks        rows       "
        "size        new\n";
    for (const Manifest& manifest : manifests) {
        const Sum sum = sum_of(manifest.chunks);
        text += fmt::format("{:10}  {:20}  {:16}  {:6}  {:6}  {:10}  {:>9}  {:>9}\n",
                            manifest.number, time_text(manifest.created_ns), as_of(manifest),
                            manifest.tables.size(), manifest.chunks.size(), sum.rows,
                            bytes_text(sum.bytes), bytes_text(manifest.new_bytes()));
    }
    return text;
}

std::string list_json(std::span<const Manifest> manifests) {
    Json list = Json::array();
    for (const Manifest& manifest : manifests) {
        Json one = head_json(manifest);
        one["tables"] = manifest.tables.size();
        one["chunks"] = manifest.chunks.size();
        list.push_back(std::move(one));
    }
    return json_text(list);
}

std::string show_text(const Manifest& manifest) {
    std::string text =
        fmt::format("checkpoint {} of {}, as of {}; {}, {} of it written for this one\n",
                    manifest.number, time_text(manifest.created_ns), as_of(manifest),
                    bytes_text(manifest.bytes()), bytes_text(manifest.new_bytes()));
    for (const TableSchema& table : manifest.tables) {
        const std::span<const ChunkEntry> chunks = manifest.chunks_of(table.id);
        const Sum sum = sum_of(chunks);
        text += fmt::format(
            "table '{}': {}, {} x {}, rule {}{}; {} in {}, {}\n", table.name, layout_of(table),
            table.width, to_string(table.value_type), table.rule,
            table.combine ? fmt::format(" of the {}", to_string(*table.combine)) : "",
            counted(sum.rows, "row"), counted(chunks.size(), "chunk"), bytes_text(sum.bytes));
    }
    return text;
}

std::string show_json(const Manifest& manifest) {
    Json all = head_json(manifest);
    all["tables"] = Json::array();
    for (const TableSchema& table : manifest.tables) {
        Json chunks = Json::array();
        for (const ChunkEntry& chunk : manifest.chunks_of(table.id)) {
            chunks.push_back({{"file", chunk.name},
                              {"first_position", chunk.range.first},
                              {"last_position", chunk.range.last},
                              {"rows", chunk.row_count},
                              {"bytes", chunk.size_bytes}});
        }
        all["tables"].push_back({{"table", table.name},
                                 {"layout", layout_of(table)},
                                 {"value_type", to_string(table.value_type)},
                                 {"width", table.width},
                                 {"rule", table.rule},
                                 {"key_count", table.key_count},
                                 {"chunks", std::move(chunks)}});
        if (table.combine) all["tables"].back()["combine"] = to_string(*table.combine);
    }
    return json_text(all);
}

std::string verify_text(std::span<const VerifiedCheckpoint> verified) {
    std::string text;
    for (const VerifiedCheckpoint& one : verified) {
        text += fmt::format("checkpoint {}: {}\n", one.number,
                            one.faults.empty() ? "whole" : "not usable");
        for (const std::string& fault : one.faults)
            text += fmt::format("  {}\n", fault);
    }
    return text;
}

std::string verify_json(std::span<const VerifiedCheckpoint> verified) {
    Json list = Json::array();
    for (const VerifiedCheckpoint& one : verified) {
        list.push_back(
            {{"checkpoint", one.number}, {"whole", one.faults.empty()}, {"faults", one.faults}});
    }
    return json_text(list);
}

std::string prune_text(const PruneReport& report) {
    std::string text =
        fmt::format("removed {} and {}\n", counted(report.pruned.checkpoints.size(), "checkpoint"),
                    counted(report.pruned.chunk_count, "chunk"));
    if (report.unfinished_count) {
        text += fmt::format("removed {} of unfinished checkpoints\n",
                            counted(*report.unfinished_count, "file"));
    }
    return text;
}

std::string left_text(const std::string& folder, size_t file_count) {
    return fmt::format(
        "{}: {} of unfinished checkpoints, after the newest complete one, {}: a job may be writing "
        "them; when no job writes there, --unfinished removes them\n",
        folder, counted(file_count, "file"), file_count == 1 ? "stays" : "stay");
}

std::string export_json(const Manifest& manifest, const CheckpointFlags& flags,
                        const ExportReport& report) {
    constexpr std::string_view kFormats[] = {"text", "npz", "safetensors"};
    return json_text(Json{{"checkpoint", manifest.number},
                          {"file", flags.out},
                          {"format", kFormats[static_cast<size_t>(flags.format)]},
                          {"bytes", report.written_bytes},
                          {"names", report.names}});
}

std::string prune_json(const PruneReport& report) {
    Json all = {{"checkpoints", report.pruned.checkpoints}, {"chunks", report.pruned.chunk_count}};
    if (report.unfinished_count) all["unfinished_files"] = *report.unfinished_count;
    return json_text(all);
}

}  // namespace weir::tools

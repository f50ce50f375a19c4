// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/lr/lr_settings.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "lib/base/counted.h"
#include "lib/data/input_file.h"
#include "tools/weir/paths.h"

namespace weir::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormatKey = "weir lr";
constexpr uint32_t kFormat = 4;

/// A name that other processes of the host can use, too.
std::string absolute_name(const std::string& path) {
    if (path.empty() || path == data::kStandardInput || is_stdout(path)) return path;
    return std::filesystem::absolute(path).string();
}

Json names_of(const std::vector<std::string>& paths) {
    Json names = Json::array();
    for (const std::string& path : paths)
        names.push_back(absolute_name(path));
    return names;
}

Json description_of(const LrFlags& flags, const JobShape& shape) {
    const apps::LrRunOptions& run = flags.run;
    return {{kFormatKey, kFormat},
            {"train", names_of(run.train)},
            {"train_files", run.train.size()},
            {"solver", flags.solver_name()},
            {"stream", names_of(flags.online.stream)},
            {"stream_files", flags.online.stream.size()},
            {"loss", name_of(flags.online.loss)},
            {"classes", flags.online.classes.text()},
            {"alpha", flags.online.alpha},
            {"beta", flags.online.beta},
            {"l2", flags.online.l2},
            {"batch", flags.online.batch},
            {"test", names_of(run.test)},
            {"test_files", run.test.size()},
            {"init", absolute_name(flags.init)},
            {"l1", run.solver.l1},
            {"history", run.solver.pairs_max},
            {"passes", run.solver.pass_count_max},
            {"tolerance", run.solver.tolerance},
            {"blocks", run.solver.block_count},
            {"kkt", run.solver.kkt},
            {"tau", run.solver.tau},
            {"seed", run.solver.seed},
            {"skip_bad", run.skip_bad},
            {"labels", run.labels.text()},
            {"filters", run.filters.text()},
            {"model", absolute_name(flags.model)},
            {"json", absolute_name(flags.json)},
            {"plot", absolute_name(flags.plot)},
            {"checkpoint", absolute_name(flags.job.options.checkpoint_folder)},
            {"shards", flags.job.options.shards_per_server},
            {"colocate", flags.job.options.colocate},
            {"ranks", shape.size},
            {"servers", shape.server_count},
            {"workers", shape.worker_count}};
}

/// `flag`: "train", "test" or "stream"
Status take_files(const Json& from, const std::string& flag, std::vector<std::string>& files) {
    const auto count = from.at(flag + "_files").get<size_t>();
    const std::vector<std::string> told = from.at(flag);
    if (!files.empty() && files.size() != count) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("--{} names {}, and that of the job {}: give the same files, "
                                 "or leave --{} out if they have the same names here",
                                 flag, counted(files.size(), "file"), count, flag));
    }
    if (!files.empty()) return {};
    if (told.size() != count) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("the names of the job's {} --{} files are too long to be told: "
                                 "give --{} as its ranks have it",
                                 count, flag, flag));
    }
    files = told;
    return {};
}

/// How far the job is in a file is known by the file's name, whatever its folder.
Status check_stream_names(const Json& from, const std::vector<std::string>& files) {
    const std::vector<std::string> told = from.at("stream");
    for (size_t i = 0; i < std::min(told.size(), files.size()); ++i) {
        const std::string wanted = std::filesystem::path(told[i]).filename().string();
        if (std::filesystem::path(files[i]).filename() == wanted) continue;
        return Error(
            Errc::kInvalidArgument,
            fmt::format("--stream {}: the job calls this file {}; it may be in another folder, "
                        "but needs that name",
                        files[i], wanted));
    }
    return {};
}

Status take_all_files(const Json& from, LrFlags& flags) {
    WEIR_TRY(take_files(from, "train", flags.run.train));
    WEIR_TRY(take_files(from, "test", flags.run.test));
    WEIR_TRY(take_files(from, "stream", flags.online.stream));
    WEIR_TRY(check_stream_names(from, flags.online.stream));
    from.at("init").get_to(flags.init);
    std::vector<std::string> inputs = flags.run.train;
    inputs.insert(inputs.end(), flags.run.test.begin(), flags.run.test.end());
    inputs.insert(inputs.end(), flags.online.stream.begin(), flags.online.stream.end());
    inputs.push_back(flags.init);
    for (const std::string& path : inputs) {
        if (path != data::kStandardInput) continue;
        return Error(Errc::kUnavailable,
                     "the job reads its standard input, which no other process can read: start it "
                     "with files");
    }
    from.at("model").get_to(flags.model);
    from.at("json").get_to(flags.json);
    from.at("plot").get_to(flags.plot);
    from.at("checkpoint").get_to(flags.job.options.checkpoint_folder);
    return {};
}

Status take_training(const Json& from, LrFlags& flags) {
    apps::LrRunOptions& run = flags.run;
    from.at("l1").get_to(run.solver.l1);
    from.at("history").get_to(run.solver.pairs_max);
    from.at("passes").get_to(run.solver.pass_count_max);
    from.at("tolerance").get_to(run.solver.tolerance);
    from.at("blocks").get_to(run.solver.block_count);
    from.at("kkt").get_to(run.solver.kkt);
    from.at("tau").get_to(run.solver.tau);
    from.at("seed").get_to(run.solver.seed);
    from.at("skip_bad").get_to(run.skip_bad);
    const std::string filters = from.at("filters");
    WEIR_ASSIGN(run.filters, Filters::parse(filters));
    flags.take_solver(from.at("solver").get<std::string>());
    apps::OnlineOptions& online = flags.online;
    online.loss = apps::loss_named(from.at("loss").get<std::string>()).value_or(online.loss);
    if (const std::string classes = from.at("classes"); !classes.empty()) {
        WEIR_ASSIGN(online.classes, data::ClassLabels::parse(classes));
    }
    from.at("alpha").get_to(online.alpha);
    from.at("beta").get_to(online.beta);
    from.at("l2").get_to(online.l2);
    from.at("batch").get_to(online.batch);
    const std::string labels = from.at("labels");
    if (labels.empty()) return {};
    WEIR_ASSIGN(run.labels, data::LabelMap::parse(labels));
    return {};
}

void take_shape(const Json& from, LrFlags& flags) {
    from.at("shards").get_to(flags.job.options.shards_per_server);
    from.at("colocate").get_to(flags.job.options.colocate);
    from.at("servers").get_to(flags.job.options.servers);
    from.at("ranks").get_to(flags.began.ranks);
    from.at("servers").get_to(flags.began.servers);
    from.at("workers").get_to(flags.began.workers);
}

Error not_a_training(std::string_view description) {
    constexpr size_t kShownBytesMax = 100;
    return {Errc::kUnavailable,
            fmt::format("the job is not a training of this version of `weir lr`: its work is '{}'",
                        description.substr(0, kShownBytesMax))};
}

}  // namespace

std::string describe_training(const LrFlags& flags, const JobShape& shape) {
    Json description = description_of(flags, shape);
    // Of a file whose name is no text, who joins is told to name it.
    const auto text = [&] {
        return description.dump(-1, ' ', false, Json::error_handler_t::replace);
    };
    const auto fits = [&] { return text().size() <= WorkShare::kDescriptionBytesMax; };
    for (const char* const names : {"test", "train", "stream"}) {
        if (!fits()) description[names] = Json::array();
    }
    return fits() ? text() : std::string();
}

Status take_settings(const JobStatus::Work& work, LrFlags& flags) {
    if (work.on_worker_loss != OnWorkerLoss::kReassign) {
        return Error(
            Errc::kUnavailable,
            fmt::format("the job takes no workers: it was started with --on-worker-loss {}, "
                        "and that must be reassign",
                        to_string(work.on_worker_loss)));
    }
    if (work.piece_count == 0) {
        return Error(Errc::kUnavailable,
                     "the job has given out no work yet: it has just begun, or is not a `weir lr`; "
                     "try again in a while");
    }
    try {
        const Json from = Json::parse(work.description);
        if (from.value(kFormatKey, 0U) != kFormat) return not_a_training(work.description);
        WEIR_TRY(take_all_files(from, flags));
        WEIR_TRY(take_training(from, flags));
        take_shape(from, flags);
    } catch (const Json::exception&) {
        return not_a_training(work.description);
    }
    flags.job.options.on_worker_loss = OnWorkerLoss::kReassign;
    return {};
}

}  // namespace weir::tools

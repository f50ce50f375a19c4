// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/checkpoint.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "bench/jobs/elastic/elastic_load.h"
#include "bench/jobs/json.h"
#include "lib/base/descriptor.h"
#include "lib/base/json_text.h"
#include "lib/checkpoint/manifest.h"
#include "lib/data/output_file.h"

namespace weir::bench {

void CheckpointOrders::order(Work work) {
    const std::lock_guard lock(mutex_);
    ordered_ = std::move(work);
    changed_.notify_all();
}

void CheckpointOrders::end() {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
}

std::optional<Result<CheckpointOrders::Done>> CheckpointOrders::take_done() {
    const std::lock_guard lock(mutex_);
    return std::exchange(done_, std::nullopt);
}

Result<CheckpointOrders::Done> CheckpointOrders::wait_done() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_.has_value(); });
    return *std::exchange(done_, std::nullopt);
}

void CheckpointOrders::serve(Client& client) {
    while (true) {
        Work work;
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] { return ordered_ != nullptr || is_over_; });
            if (is_over_) return;
            work = std::exchange(ordered_, nullptr);
        }
        Result<Done> done = work(client);
        const std::lock_guard lock(mutex_);
        done_.emplace(std::move(done));
        changed_.notify_all();
    }
}

namespace {

constexpr std::array<PushKindInfo, 4> kPushed = {{
    {PushKind::kKey, "1 key", 1, 32},
    {PushKind::kList, "list of 1000 keys", 1, 4},
    {PushKind::kPage, "4 KiB", 16, 32},
    {PushKind::kBulk, "256 KiB", 2, 4},
}};
constexpr double kBytesPerMib = 1024.0 * 1024.0;

using PushTimes = std::array<std::vector<uint32_t>, kPushed.size()>;

/// Of one kind of push: of each round, or of all pushes.
struct KindRow {
    std::vector<double> usual_p99_us;
    std::vector<double> p99_us;
    std::vector<double> p99_ratio;
    std::vector<double> plain_p99_us;  ///< beside plain writes
    std::vector<double> plain_p99_ratio;
};

struct CheckpointTimes {
    std::array<KindRow, kPushed.size()> kinds;
    std::vector<double> mib;          ///< of a checkpoint
    std::vector<double> alone_s;      ///< nobody pushes
    std::vector<double> beside_s;     ///< while pushes go on
    std::vector<double> plain_mib_s;  ///< of plain sequential writes
    std::vector<double> alone_share;  ///< of that speed
    std::vector<double> beside_share;
};

/// Seconds that it takes to write a file of so many bytes, and to have it on the disk. They come from
/// memory that is in no cache, as the rows of a table do.
Result<double> write_plainly(const std::string& folder, uint64_t bytes) {
    constexpr size_t kBlock = size_t{1} << 20;
    const std::string path = folder + "/plain";
    static const std::vector<char> rows(size_t{64} << 20, 'w');
    const SteadyClock clock;
    const uint64_t begin_ns = clock.now_ns();
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    bool is_good = static_cast<bool>(file);
    for (uint64_t done = 0; is_good && done < bytes;) {
        const ssize_t some = ::write(file.get(), rows.data() + done % rows.size() / kBlock * kBlock,
                                     std::min<uint64_t>(kBlock, bytes - done));
        is_good = some > 0;
        done += is_good ? static_cast<uint64_t>(some) : 0;
    }
    is_good = is_good && ::fsync(file.get()) == 0;
    const double seconds = static_cast<double>(clock.now_ns() - begin_ns) * 1e-9;
    const int reason = errno;
    ::unlink(path.c_str());
    if (!is_good) return Error(Errc::kIo, path + ": cannot be written", reason);
    return seconds;
}

Result<CheckpointOrders::Done> write_checkpoint(Client& client) {
    const SteadyClock clock;
    const uint64_t begin_ns = clock.now_ns();
    WEIR_ASSIGN(const uint64_t number, client.checkpoint(kLongDeadline));
    return CheckpointOrders::Done{static_cast<double>(clock.now_ns() - begin_ns) * 1e-9, number};
}

/// Bytes of the chunks that the checkpoint itself has written.
Result<uint64_t> bytes_written(const std::string& folder, uint64_t number) {
    checkpoint::RealDisk disk;
    WEIR_ASSIGN(const checkpoint::Manifest manifest,
                checkpoint::read_manifest(disk, folder, number));
    uint64_t bytes = 0;
    for (const checkpoint::ChunkEntry& chunk : manifest.chunks)
        bytes += chunk.name.starts_with(fmt::format("{:06}.", number)) ? chunk.size_bytes : 0;
    return bytes;
}

double p99_us(std::vector<uint32_t>& times_ns) {
    BenchRow row;
    set_percentiles(row, times_ns);
    return row.p99_us;
}

class CheckpointBench {
public:
    CheckpointBench(Client& client, const BenchFlags& flags, CheckpointOrders& orders)
        : flags_(flags),
          orders_(orders),
          load_(client, flags.table_mib, flags.brief ? 20'000 : 1'000'000) {}

    [[nodiscard]] Status run(CheckpointTimes& measured) {
        WEIR_TRY(load_.prepare());
        WEIR_TRY(round(nullptr));  // the first one takes memory, and makes the folder's files
        for (uint32_t i = 0; i < flags_.rounds; ++i)
            WEIR_TRY(round(&measured));
        return {};
    }

private:
    [[nodiscard]] Status turn(PushTimes& times) {
        for (size_t kind = 0; kind < kPushed.size(); ++kind)
            WEIR_TRY(load_.push(kPushed[kind], times[kind]));
        return {};
    }

    /// The other worker does the work, and this one pushes meanwhile.
    [[nodiscard]] Result<CheckpointOrders::Done> push_beside(CheckpointOrders::Work work,
                                                             PushTimes& times) {
        WEIR_TRY(load_.push_all());
        ::sync();
        orders_.order(std::move(work));
        while (true) {
            WEIR_TRY(turn(times));
            if (auto done = orders_.take_done()) return *std::move(done);
        }
    }

    [[nodiscard]] Status round(CheckpointTimes* measured) {
        const std::string& folder = flags_.job.checkpoint_folder;
        PushTimes usual;
        PushTimes beside;
        PushTimes beside_plain;
        const uint64_t end_ns = clock_.now_ns() + static_cast<uint64_t>(flags_.seconds * 1e9);
        while (clock_.now_ns() < end_ns)
            WEIR_TRY(turn(usual));
        WEIR_ASSIGN(const CheckpointOrders::Done with, push_beside(write_checkpoint, beside));
        WEIR_TRY(load_.push_all());
        ::sync();
        orders_.order(write_checkpoint);
        WEIR_ASSIGN(const CheckpointOrders::Done alone, orders_.wait_done());
        WEIR_ASSIGN(const uint64_t bytes, bytes_written(folder, alone.number));
        WEIR_ASSIGN(const uint64_t bytes_beside, bytes_written(folder, with.number));
        ::sync();
        WEIR_ASSIGN(const double plain_s, write_plainly(folder, bytes));
        const auto plainly = [&](Client&) -> Result<CheckpointOrders::Done> {
            WEIR_ASSIGN(const double seconds, write_plainly(folder, bytes));
            return CheckpointOrders::Done{seconds, 0};
        };
        WEIR_TRY(push_beside(plainly, beside_plain));
        if (measured == nullptr) return {};
        const double plain = static_cast<double>(bytes) / kBytesPerMib / plain_s;
        measured->mib.push_back(static_cast<double>(bytes) / kBytesPerMib);
        measured->plain_mib_s.push_back(plain);
        measured->alone_s.push_back(alone.seconds);
        measured->beside_s.push_back(with.seconds);
        measured->alone_share.push_back(plain_s / alone.seconds);
        measured->beside_share.push_back(static_cast<double>(bytes_beside) / kBytesPerMib /
                                         with.seconds / plain);
        for (size_t kind = 0; kind < kPushed.size(); ++kind) {
            KindRow& row = measured->kinds[kind];
            row.usual_p99_us.push_back(p99_us(usual[kind]));
            row.p99_us.push_back(p99_us(beside[kind]));
            row.p99_ratio.push_back(row.p99_us.back() / row.usual_p99_us.back());
            row.plain_p99_us.push_back(p99_us(beside_plain[kind]));
            row.plain_p99_ratio.push_back(row.plain_p99_us.back() / row.usual_p99_us.back());
        }
        return {};
    }

    const BenchFlags& flags_;
    CheckpointOrders& orders_;
    SteadyClock clock_;
    ElasticLoad load_;
};

Status report(CheckpointTimes& measured, const BenchFlags& flags, const JobShape& shape) {
    fmt::print(
        "# Weir checkpoint: a worker pushes while checkpoints of {:.0f} MiB are written to {}; {}, "
        "{}\n# Medians of {} rounds. The limit: the same beside plain writes of as much.\n"
        "# {:<17} {:>14} {:>18} {:>10} {:>14} {:>10}\n",
        median(measured.mib), flags.job.checkpoint_folder, shape.transports, shape.launcher,
        flags.rounds, "Push", "usual p99 us", "checkpoint p99 us", "ratio", "limit p99 us",
        "ratio");
    nlohmann::json rows = nlohmann::json::array();
    for (size_t kind = 0; kind < kPushed.size(); ++kind) {
        KindRow& row = measured.kinds[kind];
        const double usual = median(row.usual_p99_us);
        const double beside = median(row.p99_us);
        const double ratio = median(row.p99_ratio);
        const double plain = median(row.plain_p99_us);
        const double plain_ratio = median(row.plain_p99_ratio);
        fmt::print("{:<19} {:>14.1f} {:>18.1f} {:>10.2f} {:>14.1f} {:>10.2f}\n", kPushed[kind].name,
                   usual, beside, ratio, plain, plain_ratio);
        rows.push_back({{"push", kPushed[kind].name},
                        {"usual_p99_us", usual},
                        {"p99_us", beside},
                        {"p99_ratio", ratio},
                        {"limit_p99_us", plain},
                        {"limit_p99_ratio", plain_ratio}});
    }
    nlohmann::json json = bench_json("checkpoint", shape);
    json["rounds"] = flags.rounds;
    json["mib"] = median(measured.mib);
    json["plain_mib_per_s"] = median(measured.plain_mib_s);
    json["alone_seconds"] = median(measured.alone_s);
    json["beside_seconds"] = median(measured.beside_s);
    json["alone_share"] = median(measured.alone_share);
    json["beside_share"] = median(measured.beside_share);
    json["rows"] = std::move(rows);
    fmt::print(
        "# A checkpoint takes {:.3f} s, with pushes {:.3f} s; plain sequential writes of as much "
        "{:.0f} "
        "MiB/s.\n# Share of that speed: {:.2f}, with pushes {:.2f}.\n",
        median(measured.alone_s), median(measured.beside_s), median(measured.plain_mib_s),
        median(measured.alone_share), median(measured.beside_share));
    std::fflush(stdout);
    if (flags.json.empty()) return {};
    return data::write_whole_file(flags.json, json_text(json));
}

}  // namespace

Status bench_checkpoint(Client& client, const BenchFlags& flags, const JobShape& shape,
                        CheckpointOrders& orders) {
    if (shape.worker_count != 2 || shape.local_workers != 2) {
        orders.end();
        return Error(Errc::kInvalidArgument, "this bench has one process with two workers");
    }
    if (client.worker() != 0) {
        const Status met = client.barrier();
        orders.serve(client);
        return met;
    }
    CheckpointTimes measured;
    Status outcome = flags.json.empty() ? Status() : data::check_output(flags.json);
    if (outcome) outcome = CheckpointBench(client, flags, orders).run(measured);
    orders.end();
    WEIR_TRY(std::move(outcome));
    return report(measured, flags, shape);
}

}  // namespace weir::bench

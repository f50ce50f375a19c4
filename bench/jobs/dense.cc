// SPDX-License-Identifier: Apache-2.0
// weir bench push, pull and mixed: dense tables, registered buffers, one size after the other.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <thread>

#include "bench/jobs/work.h"
#include "bench/limits/memory_work.h"
#include "bench/limits/socket_pair.h"
#include "bench/micro/arena.h"
#include "lib/base/check.h"

namespace weir::bench {
namespace {

/// The least bytes of payloads in one round.
constexpr uint64_t kRoundBytesMin = 1 << 20;

uint32_t in_flight(const BenchFlags& flags, uint64_t bytes) {
    if (flags.in_flight != 0) return flags.in_flight;
    return bytes <= 64 << 10 ? 16 : 4;
}

/// The size of the pull that wakes the server: large enough that its values are not copied.
constexpr uint64_t kWakingValues = 1 << 14;

/// What the limit over tcp takes from its connection at a time: an L2 cache holds it.
constexpr uint64_t kTakenValues = 1 << 15;

uint64_t round_count(uint64_t bytes, uint32_t in_flight) {
    return std::max<uint64_t>(in_flight, kRoundBytesMin / bytes);
}

/// Places of one size all over the table, in an order that no prefetcher predicts.
class Places {
public:
    Places(uint64_t table_values, uint64_t values)
        : values_(values), count_(std::max<uint64_t>(1, table_values / values)) {}

    /// Returns the first value of the next place. The count is a power of two and the step is
    /// odd, so that every place gets its turn.
    uint64_t next() noexcept {
        at_ = (at_ + 0x9e3779b1) % count_;
        return at_ * values_;
    }

private:
    uint64_t values_;
    uint64_t count_;
    uint64_t at_ = 0;
};

/// What the operations of a row do.
enum class Work : uint8_t { kPush, kPull, kMixed };

Work work_of(const std::string& bench) {
    if (bench == "mixed") return Work::kMixed;
    return bench == "pull" ? Work::kPull : Work::kPush;
}

/// The turn of two threads that alternate: one writes the payloads, the other uses them, or sends
/// them to the first one, the taker.
class Turn {
public:
    enum Who : uint8_t { kWriter, kUser, kTaker, kNobody };

    void give_to(Who who) noexcept { turn_.store(who, std::memory_order_release); }

    /// Waits until it is the turn of `who`. Returns false if the turns have ended (kNobody).
    [[nodiscard]] bool wait_for(Who who) const noexcept {
        Who now = kNobody;
        do {
            now = turn_.load(std::memory_order_acquire);  // sees all that the other thread wrote
        } while (now != who && now != kNobody);
        return now == who;
    }

private:
    std::atomic<Who> turn_ = kWriter;
};

/// Pushes and pulls go in rounds. Before each round of pushes the worker's core writes new values
/// into all payloads, as a training would, so that the server's core never has them in its cache.
/// That is outside the measured time, for Weir and for the limit.
class DenseBench {
public:
    /// `pair`: if the limit is to move the payloads over a bare connection.
    DenseBench(Client& client, const BenchFlags& flags, Table<float> table, Buffer<float> buffer,
               Buffer<float> waking, std::optional<bench::SocketPair> pair)
        : client_(client),
          flags_(flags),
          work_(work_of(flags.bench)),
          table_(table),
          buffer_(std::move(buffer)),
          pulled_(work_ == Work::kMixed ? buffer_.span().last(buffer_.size() / 2) : buffer_.span()),
          waking_(std::move(waking)),
          limit_memory_(flags.table_mib << 20),
          limit_table_(limit_memory_.array<float>(flags.table_mib << 18)),
          pair_(std::move(pair)) {}

    Result<BenchRow> row(uint64_t bytes, uint32_t in_flight);
    Status touch();

private:
    void write_payloads(Work work, uint64_t values, uint64_t count);
    Result<double> ours(Work work, uint64_t values, Flight& flight, uint32_t in_flight);
    Result<double> best(uint64_t values, uint32_t in_flight);
    double limit(uint64_t values, uint32_t in_flight);
    void use_payload(float* payload, float* place, uint64_t values);
    bool take_and_add(float* place, uint64_t values);
    void send_values(Places& places, uint64_t values, uint64_t count);

    Client& client_;
    const BenchFlags& flags_;
    Work work_;
    Table<float> table_;
    Buffer<float> buffer_;     ///< the payloads of a round, one after another
    std::span<float> pulled_;  ///< where values are pulled to, not pushed from in a mix
    Buffer<float> waking_;     ///< for the pull that wakes the server
    SteadyClock clock_;
    bench::Arena limit_memory_;
    float* limit_table_;
    std::optional<bench::SocketPair> pair_;
    std::vector<float> taken_ = std::vector<float>(kTakenValues);  ///< from the connection
};

/// Touches the whole table once, so that the bench does not measure its first touch.
Status DenseBench::touch() {
    const uint64_t all = flags_.table_mib << 18;
    const uint64_t values = std::min<uint64_t>(all, buffer_.size());
    for (uint64_t begin = 0; begin < all; begin += values) {
        const uint64_t end = std::min(all, begin + values);
        WEIR_TRY(table_.push(KeyRange{begin, end}, buffer_.span().first(end - begin)).wait());
    }
    return {};
}

void DenseBench::write_payloads(Work work, uint64_t values, uint64_t count) {
    if (work == Work::kPull) return;
    for (float& value : buffer_.span().first(values * count))
        value = -value;
}

/// Returns Weir's operations per second.
Result<double> DenseBench::ours(Work work, uint64_t values, Flight& flight, uint32_t in_flight) {
    Places places(flags_.table_mib << 18, values);
    const uint64_t count = round_count(values * sizeof(float), in_flight);
    uint64_t all = 0;
    uint64_t all_ns = 0;
    while (all_ns < flags_.part_ns()) {
        write_payloads(work, values, count);
        // Wakes the server, which may have gone to sleep.
        WEIR_TRY(table_.pull(KeyRange{0, kWakingValues}, waking_.span()).wait());
        const uint64_t begin_ns = clock_.now_ns();
        for (uint64_t i = 0; i < count; ++i) {
            WEIR_TRY(flight.room());
            const uint64_t at = places.next();
            const KeyRange keys{at, at + values};
            const bool pulls = work == Work::kPull || (work == Work::kMixed && i % 2 == 1);
            const std::span<float> payloads = pulls ? pulled_ : buffer_.span();
            const std::span<float> payload = payloads.subspan(i * values, values);
            const uint64_t now_ns = clock_.now_ns();
            flight.add(pulls ? table_.pull(keys, payload) : table_.push(keys, payload), now_ns);
        }
        WEIR_TRY(flight.finish());
        all_ns += clock_.now_ns() - begin_ns;
        all += count;
    }
    return static_cast<double>(all) * 1e9 / static_cast<double>(all_ns);
}

/// Returns the limit's operations per second. Of a mix: half of them pushes and half of them pulls,
/// which take as long as those of Weir's alone.
Result<double> DenseBench::best(uint64_t values, uint32_t in_flight) {
    if (work_ != Work::kMixed) return limit(values, in_flight);
    Flight flight(in_flight);
    WEIR_ASSIGN(const double pushes, ours(Work::kPush, values, flight, in_flight));
    WEIR_ASSIGN(const double pulls, ours(Work::kPull, values, flight, in_flight));
    return 2 / (1 / pushes + 1 / pulls);
}

/// The server's core alone does the same work with the same payloads, which the worker's core
/// writes; over tcp they go from core to core.
double DenseBench::limit(uint64_t values, uint32_t in_flight) {
    const uint64_t count = round_count(values * sizeof(float), in_flight);
    Turn turn;
    std::thread writer([&] {
        pin_or_warn(flags_.limit_cpus[1]);
        while (turn.wait_for(Turn::kWriter)) {
            write_payloads(work_, values, count);
            turn.give_to(Turn::kUser);
            if (!pair_) continue;
            const std::span<float> payloads = buffer_.span().first(values * count);
            if (work_ == Work::kPush) {
                WEIR_CHECK(bench::send_all(pair_->fd(1), std::as_bytes(payloads)));
                continue;
            }
            WEIR_CHECK(bench::receive_all(pair_->fd(1), std::as_writable_bytes(payloads)));
            turn.give_to(Turn::kUser);
        }
    });
    const double per_s = on_core(flags_.limit_cpus[0], [&] {
        Places places(flags_.table_mib << 18, values);
        uint64_t all = 0;
        uint64_t all_ns = 0;
        while (turn.wait_for(Turn::kUser)) {
            const uint64_t begin_ns = clock_.now_ns();
            const bool sends = pair_ && work_ == Work::kPull;
            if (sends) {
                turn.give_to(Turn::kTaker);
                send_values(places, values, count);
                if (!turn.wait_for(Turn::kUser)) break;  // they have been taken
            }
            for (uint64_t i = 0; !sends && i < count; ++i)
                use_payload(&buffer_[i * values], limit_table_ + places.next(), values);
            all_ns += clock_.now_ns() - begin_ns;
            all += count;
            if (all_ns >= flags_.part_ns()) break;  // the writer waits until kNobody has the turn
            turn.give_to(Turn::kWriter);
        }
        return static_cast<double>(all) * 1e9 / static_cast<double>(all_ns);
    });
    turn.give_to(Turn::kNobody);
    writer.join();
    return per_s;
}

/// Adds values to the table's as they come over the bare connection.
bool DenseBench::take_and_add(float* place, uint64_t values) {
    for (uint64_t at = 0; at < values; at += kTakenValues) {
        const std::span part = std::span(taken_).first(std::min(kTakenValues, values - at));
        if (!bench::receive_all(pair_->fd(0), std::as_writable_bytes(part))) return false;
        limits::add_buffer(place + at, part.data(), part.size());
    }
    return true;
}

/// Sends the values of so many places over the bare connection, many at a time.
void DenseBench::send_values(Places& places, uint64_t values, uint64_t count) {
    std::array<iovec, 32> parts;
    while (count > 0) {
        const uint64_t now = std::min<uint64_t>(count, parts.size());
        for (iovec& part : std::span(parts).first(now))
            part = {limit_table_ + places.next(), values * sizeof(float)};
        WEIR_CHECK(bench::send_all(pair_->fd(0), std::span(parts).first(now)));
        count -= now;
    }
}

void DenseBench::use_payload(float* payload, float* place, uint64_t values) {
    if (pair_) {
        WEIR_CHECK(take_and_add(place, values));
    } else if (work_ == Work::kPull) {
        limits::copy_buffer(reinterpret_cast<std::byte*>(payload),
                            reinterpret_cast<const std::byte*>(place), values * sizeof(float));
    } else {
        limits::add_buffer(place, payload, values);
    }
}

Result<BenchRow> DenseBench::row(uint64_t bytes, uint32_t in_flight) {
    const uint64_t values = bytes / sizeof(float);
    fill_with_updates(buffer_.span());
    BenchRow row;
    row.key_count = values;
    row.size_bytes = bytes;
    row.in_flight = in_flight;
    if (work_ == Work::kPush)
        row.payload_in = cache_that_holds(round_count(bytes, in_flight) * bytes);
    WEIR_ASSIGN(const uint64_t copied_before, copied_bytes(client_));
    Flight flight(in_flight);
    std::vector<double> rates;
    std::vector<double> limits;
    std::vector<double> ratios;
    for (int i = -1; i < flags_.repetitions(); ++i) {  // the first repetition is a warm-up
        WEIR_ASSIGN(const double rate, ours(work_, values, flight, in_flight));
        WEIR_ASSIGN(const double best_rate, best(values, in_flight));
        if (i < 0) {
            flight.times_ns().clear();
            continue;
        }
        rates.push_back(rate);
        limits.push_back(best_rate * static_cast<double>(bytes));
        ratios.push_back(rate / best_rate);
    }
    WEIR_ASSIGN(const uint64_t copied_after, copied_bytes(client_));
    set_percentiles(row, flight.times_ns());
    row.operations_per_s = median(rates);
    row.limit = median(limits);
    row.ratio = median(ratios);
    row.bytes_copied = copied_after - copied_before;
    return row;
}

}  // namespace

uint64_t dense_buffer_bytes(const BenchFlags& flags) {
    uint64_t most = kRoundBytesMin;
    for (uint64_t bytes = flags.min_bytes; bytes <= flags.max_bytes; bytes *= 2)
        most = std::max(most, bytes * round_count(bytes, in_flight(flags, bytes)));
    return work_of(flags.bench) == Work::kMixed ? 2 * most : most;
}

Status bench_dense(Client& client, const BenchFlags& flags, BenchReport& report) {
    WEIR_ASSIGN(Table<float> table,
                client.create_table<float>("bench", {.layout = Layout::kDense,
                                                     .key_count = flags.table_mib << 18,
                                                     .filters = flags.filters}));
    WEIR_ASSIGN(Buffer<float> buffer,
                client.make_buffer<float>(dense_buffer_bytes(flags) / sizeof(float)));
    WEIR_ASSIGN(Buffer<float> waking, client.make_buffer<float>(kWakingValues));
    std::optional<bench::SocketPair> pair;
    if (flags.over_tcp && flags.bench != "mixed" && !pair.emplace().valid())
        return Error(Errc::kIo, "the limit has no TCP connection on loopback", errno);
    DenseBench bench(client, flags, table, std::move(buffer), std::move(waking), std::move(pair));
    WEIR_TRY(bench.touch());
    for (uint64_t bytes = flags.min_bytes; bytes <= flags.max_bytes; bytes *= 2) {
        WEIR_ASSIGN(BenchRow row, bench.row(bytes, in_flight(flags, bytes)));
        report.add(std::move(row));
    }
    return {};
}

}  // namespace weir::bench

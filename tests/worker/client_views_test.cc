// SPDX-License-Identifier: Apache-2.0
/// \file
/// Histories of one client while segments move between shards, which come and go; connections break,
/// shards are busy, and forget lists. Each push brings random words, so that the sums say whether
/// every push took effect exactly once.

#include "lib/store/rules/rule_registry.h"
#include "tests/seed.h"
#include "tests/worker/moving_shards.h"

namespace weir::test {
namespace {

constexpr uint64_t kMovingKeys = 300;
constexpr uint32_t kMovingShards = 5;
constexpr uint32_t kMovingSegments = 12;
constexpr uint64_t kWidth = ~uint64_t{0} / kMovingSegments;

class MovingJob {
public:
    MovingJob(uint64_t seed, bool breaks)
        : random_(seed), faults_(std::make_shared<transport::Faults>(random_())) {
        transport::sim::Options options;
        options.maps_memory = true;
        options.delay_ns_max = kMicrosecond * (2 + random_.below(60));
        network_ = std::make_unique<transport::sim::Network>(random_(), clock_, options);
        device_ = network_->make_device(0);
        for (uint32_t i = 0; i < kMovingShards; ++i)
            shards_.push_back(std::make_unique<PlayedShard>(i, *device_, random_, positions_));
        manager_ = std::move(device_->make_endpoint({})).value();
        begin();
        client_device_ = transport::inject_faults(network_->make_device(1), faults_);
        memory_ = std::make_unique<testing::RegisteredMemory>(*client_device_,
                                                              transport::Access::kRemote);
        ClientCoreOptions client;
        client.manager_address = manager_->address();
        client.eager_bytes = random_.below(2) == 0 ? 64 : 4096;
        client_ = std::make_unique<ClientCore>(
            client, std::move(client_device_->make_endpoint({.message_bytes_max = 1024})).value(),
            clock_, *memory_, rules_);
        REQUIRE(run_until([&] { return client_->ready(); }));
        for (uint32_t table = 0; table < positions_.size(); ++table) {
            TableSchema schema;
            schema.id = table;
            schema.name = "t";
            schema.value_type = ValueType::kUInt64;
            schema.layout = table == 1 ? Layout::kSparse : Layout::kDense;
            schema.key_count = kMovingKeys;
            schema.max_delay = 3;
            tables_.push_back(std::move(make_table_info(schema, rules_)).value());
        }
        for (int i = 0; i < 4; ++i)
            lists_.push_back(some_keys(16 + random_.below(60)));
        if (breaks) faults_->broken = 0.01;
        faults_->not_now = random_.below(2) == 0 ? 0.1 : 0;
    }

    ~MovingJob() { client_.reset(); }

    MovingJob(const MovingJob&) = delete;
    MovingJob& operator=(const MovingJob&) = delete;

    /// Returns the first error of a call.
    Status run(int rounds) {
        for (int round = 0; round < rounds; ++round) {
            for (uint64_t i = random_.below(4); i > 0; --i)
                issue();
            if (random_.below(3) == 0) issue_part();
            for (uint64_t i = random_.below(40); i > 0; --i)
                step();
            if (random_.below(2) == 0) move();
            while (calls_.size() > 12)
                finish();
        }
        while (!calls_.empty())
            finish();
        return outcome_;
    }

    /// How many keys have not the sum of what was pushed to them.
    [[nodiscard]] size_t wrong_keys() {
        REQUIRE(run_until([&] { return !next_; }));
        size_t wrong = 0;
        for (uint32_t table = 0; table < positions_.size(); ++table) {
            std::map<uint64_t, uint64_t> sums;
            for (const auto& shard : shards_) {
                for (const auto& [first, segment] : shard->held()) {
                    const auto found = segment.sums.find(table);
                    if (found != segment.sums.end())
                        sums.insert(found->second.begin(), found->second.end());
                }
            }
            for (uint64_t key = 0; key < kMovingKeys; ++key)
                wrong += sums[key] != expected_[table][key] ? 1 : 0;
        }
        return wrong;
    }

    [[nodiscard]] uint64_t views() const { return view_.epoch(); }

    [[nodiscard]] uint64_t stale() const {
        uint64_t sum = 0;
        for (const auto& shard : shards_)
            sum += shard->stale;
        return sum;
    }

private:
    struct Call {
        ClientCore::CallId id = 0;
        std::vector<uint64_t> keys;
        std::vector<uint64_t> values;
    };

    void begin() {
        ViewData data;
        data.epoch = 1;
        data.next_server = kMovingShards;
        data.next_shard = kMovingShards;
        data.next_worker = 1;
        data.workers.push_back({0, 0, 1});
        for (uint32_t i = 0; i < kMovingShards; ++i) {
            if (i >= 3) continue;  // they come later
            data.servers.push_back({i, i, i, 1});
            data.shards.push_back({i, i, 1, shards_[i]->address()});
        }
        data.segments.clear();
        for (uint32_t i = 0; i < kMovingSegments; ++i) {
            ViewSegment segment;
            segment.first = i * kWidth;
            segment.primary = i % 3;
            data.segments.push_back(segment);
        }
        view_ = std::move(View::make(data)).value();
        for (const auto& shard : shards_) {
            PlayedShard::Segments its;
            for (const uint32_t i : view_.segments_of(shard->number()))
                its[view_.segments()[i].first];
            (void)shard->take(view_, its);
        }
    }

    std::vector<uint64_t> some_keys(uint64_t count) {
        std::set<uint64_t> chosen;
        while (chosen.size() < count)
            chosen.insert(random_.below(kMovingKeys));
        return {chosen.begin(), chosen.end()};
    }

    Call& call_with_values(uint32_t table, std::vector<uint64_t> keys) {
        Call& call = calls_.emplace_back();
        call.keys = std::move(keys);
        for (const uint64_t key : call.keys) {
            call.values.push_back(random_());
            expected_[table][key] += call.values.back();
        }
        return call;
    }

    void issue() {
        const bool is_range = random_.below(3) == 0;
        const uint32_t table = is_range ? 0 : static_cast<uint32_t>(random_.below(2));
        if (random_.below(5) == 0) {
            Call& call = calls_.emplace_back();
            call.keys = lists_[random_.below(4)];
            call.values.resize(call.keys.size());
            call.id = client_->pull(tables_[table], call.keys,
                                    std::as_writable_bytes(std::span(call.values)), {});
            return;
        }
        if (is_range) {
            const uint64_t first = random_.below(kMovingKeys);
            const uint64_t most = random_.below(2) == 0 ? 4 : kMovingKeys;
            std::vector<uint64_t> keys;
            const uint64_t end = first + 1 + random_.below(std::min(most, kMovingKeys - first));
            for (uint64_t key = first; key < end; ++key)
                keys.push_back(key);
            Call& call = call_with_values(table, keys);
            call.id = client_->push(tables_[table], KeyRange{first, end},
                                    std::as_bytes(std::span(call.values)), {});
            return;
        }
        Call& call =
            call_with_values(table, random_.below(2) == 0 ? lists_[random_.below(4)]
                                                          : some_keys(1 + random_.below(12)));
        call.id =
            client_->push(tables_[table], call.keys, std::as_bytes(std::span(call.values)), {});
    }

    void issue_part() {
        size_t open = 0;
        for (const Call& call : calls_)
            open += std::ranges::count(parts_, call.id) > 0 && !client_->done(call.id) ? 1 : 0;
        if (open >= 3) return;
        Call& call = call_with_values(2, some_keys(1 + random_.below(80)));
        CallOptions options;
        options.iteration = ++iteration_;
        call.id =
            client_->push(tables_[2], call.keys, std::as_bytes(std::span(call.values)), options);
        parts_.push_back(call.id);
    }

    void finish() {
        Call& call = calls_.front();
        REQUIRE(run_until([&] { return client_->done(call.id); }));
        const Status ended = client_->take(call.id);
        if (outcome_ && !ended) outcome_ = ended;
        std::erase(parts_, call.id);
        calls_.pop_front();
    }

    /// Begins to make a view, in which some shards get segments of others.
    void move() {
        if (next_) return;
        ViewData data = view_.data();
        ++data.epoch;
        const bool comes = random_.below(3) == 0;
        for (uint32_t i = 3; i < kMovingShards && comes; ++i) {
            if (view_.shard(i) != nullptr || was_there_.contains(i)) continue;
            was_there_.insert(i);
            data.servers.push_back({i, i, i, 1});
            data.shards.push_back({i, i, data.epoch, shards_[i]->address()});
            break;
        }
        std::set<uint32_t> touched;
        const uint32_t from = view_.segments()[random_.below(kMovingSegments)].primary;
        const uint32_t to = data.shards[random_.below(data.shards.size())].number;
        const bool all = random_.below(4) == 0;
        for (ViewSegment& segment : data.segments) {
            if (segment.primary != from || from == to || (!all && random_.below(2) == 0)) continue;
            segment.primary = to;
            touched.insert({from, to});
        }
        std::erase_if(data.shards, [&](const ViewShard& shard) {
            const bool holds =
                std::ranges::count(data.segments, shard.number, &ViewSegment::primary) > 0;
            const bool leaves = !holds && view_.segments_of(shard.number).empty() &&
                                view_.shard(shard.number) != nullptr && random_.below(4) == 0;
            if (leaves) {
                std::erase_if(data.servers,
                              [&](const ViewServer& s) { return s.number == shard.number; });
            }
            return leaves;
        });
        for (ViewShard& shard : data.shards) {
            if (touched.contains(shard.number)) shard.since = data.epoch;
        }
        next_ = std::move(View::make(data)).value();
        losers_.clear();
        others_.clear();
        for (uint32_t i = 0; i < kMovingShards; ++i)
            (touched.contains(i) && i == from ? losers_ : others_).push_back(i);
        is_told_ = false;
    }

    /// One shard takes the view that is being made, losers first; or the client gets it.
    void go_on() {
        if (!losers_.empty()) {
            moving_.merge(shards_[losers_.back()]->take(*next_, {}));
            return losers_.pop_back();
        }
        if (!is_told_ && random_.below(3) == 0) {
            for (const auto& body : encode_parts(view_change(view_, *next_), kViewPartBytesMin))
                send_to_client(body);
            is_told_ = true;
        } else if (!others_.empty()) {
            const uint32_t i = others_.back();
            PlayedShard::Segments its;
            for (const uint32_t segment : next_->segments_of(i)) {
                const auto found = moving_.find(next_->segments()[segment].first);
                if (found != moving_.end()) its.insert(moving_.extract(found));
            }
            (void)shards_[i]->take(*next_, std::move(its));
            others_.pop_back();
        } else if (is_told_) {
            view_ = *std::exchange(next_, std::nullopt);
        }
    }

    void send_to_client(const std::vector<std::byte>& body) {
        while (testing::send_frame(*manager_, to_client_, testing::frame_header(wire::Kind::kView),
                                   body) == transport::Post::kNotNow) {
            REQUIRE(network_->step());
        }
    }

    void poll_manager() {
        std::array<transport::Completion, 8> completions;
        const size_t count = manager_->poll(completions);
        for (const transport::Completion& c : std::span(completions).first(count)) {
            if (c.event == transport::Event::kClosed && c.connection == to_client_)
                FAIL("the client left the manager");
            if (c.event != transport::Event::kReceived) continue;
            to_client_ = c.connection;
            for (const auto& body : encode_parts(whole_view(view_), kViewPartBytesMin))
                send_to_client(body);
        }
    }

    void step() {
        poll_manager();
        size_t done = client_ == nullptr ? 0 : client_->poll();
        for (const auto& shard : shards_)
            done += random_.below(3) == 0 ? 0 : shard->poll();
        if (next_ && random_.below(8) == 0) {
            go_on();
            ++done;
        }
        if (done == 0 && !network_->step()) clock_.advance(kMillisecond / 4);
    }

    template <class Over>
    [[nodiscard]] bool run_until(Over&& over) {
        for (int i = 0; i < 400'000 && !over(); ++i)
            step();
        return over();
    }

    Random random_;
    std::shared_ptr<transport::Faults> faults_;
    ManualClock clock_;
    RuleRegistry rules_ = RuleRegistry::with_builtin_rules();
    const std::vector<PositionMap> positions_{
        PositionMap::dense(kMovingKeys), PositionMap::sparse(), PositionMap::dense(kMovingKeys)};
    std::unique_ptr<transport::sim::Network> network_;
    std::unique_ptr<transport::Device> device_;
    std::unique_ptr<transport::Device> client_device_;
    std::vector<std::unique_ptr<PlayedShard>> shards_;
    std::unique_ptr<transport::Endpoint> manager_;
    transport::ConnectionId to_client_ = 0;
    std::unique_ptr<testing::RegisteredMemory> memory_;
    std::unique_ptr<ClientCore> client_;
    std::vector<TableInfo> tables_;
    std::vector<std::vector<uint64_t>> lists_;
    std::deque<Call> calls_;
    std::vector<ClientCore::CallId> parts_;
    uint64_t iteration_ = 0;
    std::array<std::array<uint64_t, kMovingKeys>, 3> expected_{};
    Status outcome_;
    View view_;
    std::optional<View> next_;
    std::vector<uint32_t> losers_;
    std::vector<uint32_t> others_;
    std::set<uint32_t> was_there_;
    PlayedShard::Segments moving_;
    bool is_told_ = false;
};

void check_histories(bool breaks) {
    uint64_t views = 0;
    uint64_t stale = 0;
    const uint64_t first = testing::seed_or(1);
    for (uint64_t seed = first; seed < first + testing::histories_or(100); ++seed) {
        INFO("WEIR_SEED=" << seed);
        MovingJob job(seed, breaks);
        const Status ended = job.run(40);
        INFO((ended ? std::string() : ended.error().text()));
        REQUIRE(ended.has_value());
        REQUIRE(job.wrong_keys() == 0);
        views += job.views();
        stale += job.stale();
    }
    CHECK(views > 100);
    CHECK(stale > 0);
}

}  // namespace

TEST_SUITE("client_views") {
    TEST_CASE("while segments move, every push takes effect exactly once, and no call fails") {
        check_histories(false);
    }

    TEST_CASE("the same, while connections break") {
        check_histories(true);
    }
}

}  // namespace weir::test

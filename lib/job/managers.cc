// SPDX-License-Identifier: Apache-2.0
#include "lib/job/managers.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "lib/job/unique_number.h"

namespace weir {
namespace {

constexpr std::string_view kManagerKey = "weir-manager";
constexpr std::string_view kLogKey = "weir-log";
// A manager that runs but gets no processor for so long should go on to lead.
constexpr uint64_t kElectionNs = 200 * kMillisecond;
constexpr uint64_t kHeartbeatNs = 40 * kMillisecond;
// Of several managers, each of which is given an election's time to take over.
constexpr std::chrono::seconds kHandoverMax(5);
constexpr std::chrono::milliseconds kLookForHandover(1);

/// What a rank says of its manager: "ID PROCESS ADDRESS" of its replica of the log.
struct Published {
    consensus::Member member;
    uint64_t process = 0;
};

/// Takes a number and the space behind it from the text; 0: there is none.
uint64_t take_number(std::string_view& text) {
    uint64_t number = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
    const auto length = static_cast<size_t>(end - text.data());
    if (fault != std::errc() || text.substr(length, 1) != " ") return 0;
    text.remove_prefix(length + 1);
    return number;
}

Result<Published> parse_published(const std::string& text, uint32_t rank) {
    Published published;
    std::string_view rest = text;
    published.member.id = take_number(rest);
    published.process = take_number(rest);
    published.member.address = rest;
    if (published.member.id != 0 && published.process != 0 && !rest.empty()) return published;
    return Error(Errc::kProtocol, fmt::format("rank {} says about its manager: '{}'", rank, text));
}

}  // namespace

void Managers::set_ranks(const std::vector<uint32_t>& ranks, uint32_t rank) {
    for (const uint32_t with_manager : ranks) {
        places_.push_back({with_manager});
        if (with_manager == rank) number_ = places_.size();
    }
}

Status Managers::publish(Bootstrap& bootstrap, Devices& devices, uint64_t process) {
    WEIR_ASSIGN(endpoint_, devices.make_endpoint());
    WEIR_TRY(bootstrap.put(kManagerKey, endpoint_->address()));
    if (places_.size() == 1) return {};
    WEIR_ASSIGN(log_endpoint_, devices.make_endpoint());
    return bootstrap.put(kLogKey, fmt::format("{:x} {:x} {}", make_unique_number(), process,
                                              log_endpoint_->address()));
}

Status Managers::find(Bootstrap& bootstrap) {
    for (ManagerPlace& place : places_) {
        WEIR_ASSIGN(place.address, bootstrap.get(place.rank, kManagerKey));
        if (places_.size() == 1) continue;
        WEIR_ASSIGN(const std::string text, bootstrap.get(place.rank, kLogKey));
        WEIR_ASSIGN(Published published, parse_published(text, place.rank));
        members_.push_back(std::move(published.member));
        processes_.push_back(published.process);
    }
    return {};
}

Result<std::unique_ptr<StateMachine>> Managers::make(ManagerOptions options, const Clock& clock,
                                                     std::shared_ptr<const ManagerLife> life) {
    if (members_.empty())
        return std::unique_ptr<StateMachine>(
            std::make_unique<Manager>(std::move(options), std::move(endpoint_), clock));
    ReplicatedManagerOptions several;
    several.manager = std::move(options);
    several.log.group = members_[0].id;
    several.log.self = members_[number_ - 1].id;
    several.log.seed = several.log.self;
    several.log.election_ns = kElectionNs;
    several.log.heartbeat_ns = kHeartbeatNs;
    several.log.members = members_;
    several.places = places_;
    several.processes = processes_;
    several.life = life_ = std::move(life);
    several.is_unneeded = is_unneeded_;
    several.is_leaving = is_leaving_;
    several.handover = handover_ = std::make_shared<std::atomic<Handover>>(Handover::kNone);
    auto manager = std::make_unique<ReplicatedManager>(std::move(several), std::move(endpoint_),
                                                       std::move(log_endpoint_), clock);
    WEIR_TRY(manager->start());
    return std::unique_ptr<StateMachine>(std::move(manager));
}

bool Managers::leads() const {
    return life_ != nullptr && ManagerLife::number(life_->leading.load()) == number_;
}

/// Several threads may wait for the same one.
Status Managers::hand_over() {
    if (handover_ == nullptr) return {};
    handover_->store(Handover::kWanted);
    const auto until = std::chrono::steady_clock::now() + kHandoverMax;
    Handover now = handover_->load();
    for (; now == Handover::kWanted; now = handover_->load()) {
        if (std::chrono::steady_clock::now() > until)
            return Error(Errc::kDeadline, "the manager in this process does not answer");
        std::this_thread::sleep_for(kLookForHandover);
    }
    if (now == Handover::kDone) return {};
    return Error(Errc::kUnavailable,
                 fmt::format("the manager in this process leads the {} of the job, and none of the "
                             "others takes over from it: they are gone or out of reach",
                             members_.size()));
}

std::string Managers::join(const std::vector<ManagerPlace>& places) {
    std::string text;
    for (const ManagerPlace& place : places)
        text += fmt::format("{}{}@{}", text.empty() ? "" : " ", place.rank, place.address);
    return text;
}

Result<std::vector<ManagerPlace>> Managers::split(std::string_view text) {
    std::vector<ManagerPlace> places;
    for (std::string_view rest = text; !rest.empty();) {
        const size_t end = std::min(rest.find(' '), rest.size());
        const std::string_view word = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        ManagerPlace place;
        const auto [at, fault] =
            std::from_chars(word.data(), word.data() + word.size(), place.rank);
        const auto digits = static_cast<size_t>(at - word.data());
        const bool is_place = fault == std::errc() && word.substr(digits, 1) == "@";
        if (is_place) place.address = word.substr(digits + 1);
        if (place.address.empty() || places.size() == kCountMax)
            return Error(Errc::kParse,
                         fmt::format("where the job's managers are: '{}' is damaged, or of another "
                                     "version of Weir; use the version that the job has",
                                     text));
        places.push_back(std::move(place));
    }
    if (places.empty()) return Error(Errc::kParse, "the job does not say where its manager is");
    return places;
}

}  // namespace weir

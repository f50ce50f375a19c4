// SPDX-License-Identifier: Apache-2.0
#include "lib/manager/replicated/replicated_manager.h"

#include <algorithm>
#include <utility>

#include <sys/epoll.h>

#include "lib/base/log.h"
#include "lib/wire/frame.h"
#include "lib/wire/messages.h"

namespace weir {

using transport::Completion;
using transport::Event;
using transport::Post;
using wire::Kind;

namespace {

/// Numbers of connections: the term, and a count. The highest bit is free: MemberLinks uses it.
constexpr uint64_t kTermShift = 36;
/// Who lacks more of the log takes part no more.
constexpr uint32_t kEntriesKept = 2048;
constexpr uint32_t kEntriesPerSnapshot = 512;
constexpr size_t kInputBytesMax = consensus::kEntryBytesMax - ManagerInput::kHeadBytes;

}  // namespace

ReplicatedManager::ReplicatedManager(ReplicatedManagerOptions options,
                                     std::unique_ptr<transport::Endpoint> endpoint,
                                     std::unique_ptr<transport::Endpoint> log_endpoint,
                                     const Clock& clock)
    : options_(std::move(options)),
      endpoint_(std::move(endpoint)),
      log_endpoint_(std::move(log_endpoint)),
      clock_(clock),
      disk_(std::make_shared<AgreedDisk>(options_.manager.checkpoints.disk)),
      handover_(*endpoint_, clock),
      led_ns_(clock.now_ns()) {
    ManagerOptions of_all = options_.manager;
    of_all.is_being_stopped = [this] { return is_being_stopped_; };
    of_all.checkpoints.is_asked_for = [this] { return std::exchange(wants_checkpoint_, false); };
    of_all.checkpoints.agreed_disk = disk_;
    of_all.managers = [this] { return seat(); };
    FedEndpoint::Connections& connections = *this;
    auto fed = std::make_unique<FedEndpoint>(connections, endpoint_->address());
    fed_ = fed.get();
    manager_ = std::make_unique<Manager>(std::move(of_all), std::move(fed), common_clock_);
}

Status ReplicatedManager::start() {
    options_.log.entries_per_snapshot = kEntriesPerSnapshot;
    options_.log.entries_kept = kEntriesKept;
    options_.log.has_ended = [this](size_t manager) { return has_ended(manager); };
    WEIR_ASSIGN(log_, consensus::start_replicated_log(options_.log, std::move(log_endpoint_),
                                                      clock_, *this));
    return {};
}

size_t ReplicatedManager::poll() {
    size_t done = log_->poll();
    heard_count_ = log_->heard_count();
    if (leads_in_term_ != 0 && !leads_) done += begin_to_lead();
    done += take_what_came();
    if (ending_since_ns_ != 0) {
        done += run_alone();
    } else if (leads_) {
        done += offer() + offer_disk() + offer_ends();
    } else {
        done += hand_over_checkpoint();
    }
    go_on_with_handover();
    done += announce() + post_waiting();
    endpoint_->flush();
    look_for_end();
    return done;
}

uint64_t ReplicatedManager::common_ns() const {
    return std::max(common_clock_.now_ns(), clock_.now_ns() + ahead_ns_);
}

// What all managers do.

void ReplicatedManager::apply(uint64_t index, std::span<const std::byte> entry) {
    log_bytes_ += entry.size();
    if (ending_since_ns_ != 0) return;
    forget_offered(index);
    run_entry(entry);
    if (manager_->is_ending()) ending_since_ns_ = clock_.now_ns();
}

void ReplicatedManager::run_entry(std::span<const std::byte> entry) {
    std::optional<ManagerInput> input = ManagerInput::decode(entry);
    if (!input) return log(LogLevel::kError, "an entry of the managers' log is malformed");
    run(*std::move(input));
}

void ReplicatedManager::run(ManagerInput input) {
    const QuietLog quiet(!leads_);
    common_clock_.set(std::max(common_clock_.now_ns(), input.now_ns));
    switch (input.kind) {
        case ManagerInput::Kind::kLead:
            fed_->break_all(input.message_bytes_max);
            disk_->change_leader();
            manager_->begin_to_look();
            is_lead_applied_ = leads_;
            break;
        case ManagerInput::Kind::kEnded: manager_->process_has_ended(input.process); break;
        case ManagerInput::Kind::kDisk: disk_->answered(input.work, std::move(input.answer)); break;
        case ManagerInput::Kind::kEvents:
            is_being_stopped_ = input.is_being_stopped;
            wants_checkpoint_ = wants_checkpoint_ || input.wants_checkpoint;
            fed_->feed(std::move(input.events));
            break;
    }
    do {
        (void)manager_->poll();
    } while (!fed_->is_drained());
    // Nothing more had come: time may have an effect.
    while (input.is_all && manager_->poll() > 0) {
    }
}

/// For people.
JobStatus::Managers ReplicatedManager::seat() const {
    return {static_cast<uint32_t>(options_.places.size()),
            options_.places[number_of(options_.log.self)].rank, static_cast<uint32_t>(heard_count_),
            announced_.term, log_bytes_};
}

/// Of a member of the log, from 0. That of none is the number of members.
size_t ReplicatedManager::number_of(uint64_t replica) const {
    const auto& members = options_.log.members;
    const auto found = std::ranges::find(members, replica, &consensus::Member::id);
    return static_cast<size_t>(found - members.begin());
}

/// It only lets the log be cut: a manager that ends never comes back, so none needs the state.
std::vector<std::byte> ReplicatedManager::snapshot() {
    return {std::byte{1}};
}

Status ReplicatedManager::restore(std::span<const std::byte> /*snapshot*/) {
    return Error(Errc::kUnavailable, "it was away for so long that what it lacks is not kept");
}

// What the one does that leads.

void ReplicatedManager::lead(uint64_t term) {
    leads_in_term_ = term;
}

void ReplicatedManager::follow() {
    leads_in_term_ = 0;
    if (ending_since_ns_ != 0) return;  // all is agreed on
    leads_ = false;
    came_.clear();
    offered_.clear();
    close_all();
}

/// The common time goes on from what it was when the last one led: it is late, so leases end late.
size_t ReplicatedManager::begin_to_lead() {
    ahead_ns_ = common_clock_.now_ns() - clock_.now_ns();
    ManagerInput input;
    input.kind = ManagerInput::Kind::kLead;
    input.now_ns = common_ns();
    input.message_bytes_max = endpoint_->capabilities().message_bytes_max;
    const bool is_alone = ending_since_ns_ != 0;
    if (!is_alone && !propose(input)) return 0;
    leads_ = true;
    handover_.stop();
    is_lead_applied_ = false;
    all_offered_ns_ = 0;
    last_number_ = 0;
    ends_offered_ = 0;
    if (is_alone) run(std::move(input));
    return 1;
}

void ReplicatedManager::go_on_with_handover() {
    std::atomic<Handover>* const handover = options_.handover.get();
    if (handover == nullptr || handover->load() != Handover::kWanted) return;
    if (handover_until_ns_ == 0) handover_until_ns_ = clock_.now_ns() + kHandoverNs;
    const Handover now = try_to_hand_over();
    if (now == Handover::kWanted) return;
    if (now == Handover::kDone && heirs_named_ > 0) {
        const size_t heir = number_of(log_->leadership().leader);
        if (heir < options_.places.size())
            log(LogLevel::kInfo, "the manager in this process leads no more; that of rank {} does",
                options_.places[heir].rank);
    }
    handover_until_ns_ = 0;
    heirs_named_ = 0;
    handover->store(now);
}

/// Names the others to lead, one after the other, until one does. The next ones come first: those before have
/// often handed over themselves, because they leave.
Handover ReplicatedManager::try_to_hand_over() {
    if (log_->finished() || ending_since_ns_ != 0) return Handover::kDone;
    const consensus::Leadership now = log_->leadership();
    if (now.leader != 0 && now.leader != options_.log.self) return Handover::kDone;
    if (log_->is_handing_over()) return Handover::kWanted;
    const auto& members = options_.log.members;
    while (leads_ && heirs_named_ + 1 < members.size()) {
        const size_t heir = (number_of(options_.log.self) + ++heirs_named_) % members.size();
        if (!has_ended(heir) && log_->hand_over(members[heir].id)) return Handover::kWanted;
    }
    const bool is_over = leads_ || clock_.now_ns() > handover_until_ns_;
    return is_over ? Handover::kImpossible : Handover::kWanted;
}

/// Its process has, proved.
bool ReplicatedManager::has_ended(size_t manager) const {
    return options_.life != nullptr && (options_.life->ended.load() >> manager & 1) != 0;
}

bool ReplicatedManager::propose(const ManagerInput& input) {
    std::vector<std::byte> entry = input.encode();
    const std::optional<uint64_t> index = log_->propose(entry);
    if (!index) return false;
    offered_.push_back({*index, std::move(entry)});
    return true;
}

/// It is applied.
void ReplicatedManager::forget_offered(uint64_t index) {
    while (!offered_.empty() && offered_.front().index <= index)
        offered_.pop_front();
}

/// What has come and was not taken by the log waits, and nothing more is read.
size_t ReplicatedManager::take_what_came() {
    if (came_.size() >= ManagerInput::kEventsMax / 2) return 0;
    const size_t count = endpoint_->poll(completions_);
    for (const Completion& completion : std::span(completions_).first(count))
        take(completion);
    is_all_ = count == 0;
    return count;
}

void ReplicatedManager::take(const Completion& completion) {
    const ConnectionId connection = completion.connection;
    if (handover_.has(connection)) return handover_.take(completion);
    if (completion.event == Event::kAccepted) {
        members_[connection] = {};
        return;
    }
    const auto found = members_.find(connection);
    if (found == members_.end()) return;
    Member& member = found->second;
    if (completion.event == Event::kReceived) return take_message(connection, member, completion);
    if (completion.event != Event::kClosed) return;
    if (member.number != 0) {
        by_number_.erase(member.number);
        ManagerEvent closed;
        closed.connection = member.number;
        closed.peer_ended = completion.peer_ended;
        note(std::move(closed));
    }
    unposted_.erase(connection);
    members_.erase(found);
}

void ReplicatedManager::take_message(ConnectionId connection, Member& member,
                                     const Completion& completion) {
    if (member.is_closing || member.is_watcher) return;
    if (member.number == 0) {
        wire::Frame frame;
        if (wire::decode(completion.message, frame) == Errc::kOk &&
            frame.header.kind == Kind::kLeader) {
            member.is_watcher = true;
            return tell_leader(connection, member);
        }
        if (!leads_) return refuse(connection);
        member.number = leads_in_term_ << kTermShift | ++last_number_;
        by_number_[member.number] = connection;
        ManagerEvent accepted;
        accepted.event = Event::kAccepted;
        accepted.connection = member.number;
        note(std::move(accepted));
    }
    ManagerEvent received;
    received.event = Event::kReceived;
    received.connection = member.number;
    received.message.assign(completion.message.begin(), completion.message.end());
    if (ManagerInput::bytes_of(received) > kInputBytesMax) return refuse(connection);
    note(std::move(received));
}

void ReplicatedManager::note(ManagerEvent event) {
    if (leads_) came_.push_back(std::move(event));
}

/// Offers the log what has come, or that time has passed.
size_t ReplicatedManager::offer() {
    const uint64_t now_ns = clock_.now_ns();
    const bool is_tick = is_all_ && now_ns - all_offered_ns_ >= tick_ns();
    if (came_.empty() && !is_tick) return 0;
    size_t offered = 0;
    do {
        ManagerInput input;
        input.now_ns = common_ns();
        input.is_being_stopped = is_job_being_stopped();
        look_for_checkpoint_asked();
        input.wants_checkpoint = is_checkpoint_asked_;
        size_t bytes = 0;
        auto event = came_.begin();
        for (; event != came_.end(); ++event) {
            bytes += ManagerInput::bytes_of(*event);
            if (bytes > kInputBytesMax || input.events.size() == ManagerInput::kEventsMax) break;
            input.events.push_back(std::move(*event));
        }
        input.is_all = event == came_.end() && is_all_;
        if (!propose(input)) {
            std::ranges::move(input.events, came_.begin());
            return offered;
        }
        came_.erase(came_.begin(), event);
        is_checkpoint_asked_ = false;
        if (input.is_all) all_offered_ns_ = now_ns;
        ++offered;
    } while (!came_.empty());
    return offered;
}

/// As far as this process knows.
bool ReplicatedManager::is_job_being_stopped() const {
    if (options_.is_leaving != nullptr && options_.is_leaving->load()) return false;
    const auto& asked = options_.manager.is_being_stopped;
    return asked && asked();
}

void ReplicatedManager::look_for_checkpoint_asked() {
    if (const auto& asked = options_.manager.checkpoints.is_asked_for)
        is_checkpoint_asked_ = asked() || is_checkpoint_asked_;
}

/// It does not lead. Who stops the whole job signals all of its processes: then the one that leads knows, too.
size_t ReplicatedManager::hand_over_checkpoint() {
    look_for_checkpoint_asked();
    if (!is_checkpoint_asked_) return 0;
    if (handover_.take_answer()) {
        is_checkpoint_asked_ = false;
        return 1;
    }
    const auto& is_being_stopped = options_.manager.is_being_stopped;
    if (is_being_stopped && is_being_stopped()) return 0;
    return handover_.ask(leader_address());
}

/// Empty: it knows of nobody that leads.
std::string ReplicatedManager::leader_address() const {
    if (log_->finished()) return {};
    const size_t leader = number_of(log_->leadership().leader);
    return leader < options_.places.size() ? options_.places[leader].address : std::string();
}

size_t ReplicatedManager::offer_disk() {
    if (options_.manager.checkpoints.disk == nullptr || !is_lead_applied_) return 0;
    if (!disk_ended_) disk_ended_ = disk_->lead();
    if (!disk_ended_) return 0;
    ManagerInput input;
    input.kind = ManagerInput::Kind::kDisk;
    input.now_ns = common_ns();
    input.work = disk_ended_->first;
    input.answer = disk_ended_->second;
    if (!propose(input)) return 0;
    disk_ended_.reset();
    return 1;
}

/// The one that led before has often died, with all that its process had. Its life line was with itself.
size_t ReplicatedManager::offer_ends() {
    const uint64_t ended = options_.life == nullptr ? 0 : options_.life->ended.load();
    if (ended == ends_offered_) return 0;
    size_t offered = 0;
    for (size_t i = 0; i < options_.processes.size(); ++i) {
        const uint64_t bit = uint64_t{1} << i;
        if ((ended & bit) == 0 || (ends_offered_ & bit) != 0) continue;
        ManagerInput input;
        input.kind = ManagerInput::Kind::kEnded;
        input.now_ns = common_ns();
        input.process = options_.processes[i];
        if (!propose(input)) return offered;
        ends_offered_ |= bit;
        ++offered;
    }
    return offered;
}

/// The job ends, and all that led to it is agreed on. Members that are here still hear it: also those of which
/// it had offered something when the job ended, a connection that had just been made anew, say.
size_t ReplicatedManager::run_alone() {
    if (!leads_ || manager_->finished()) return 0;
    size_t done = offered_.size();
    for (const OfferedEntry& offered : std::exchange(offered_, {}))
        run_entry(offered.entry);
    ManagerInput input;
    input.now_ns = common_ns();
    input.is_all = is_all_;
    input.events = std::exchange(came_, {});
    done += input.events.size();
    run(std::move(input));
    return done;
}

// Connections.

void ReplicatedManager::send(ConnectionId number, FedEndpoint::Parts parts) {
    const auto found = by_number_.find(number);
    if (!leads_ || found == by_number_.end()) return;
    Member& member = members_.at(found->second);
    post(found->second, member, parts);
    if (member.waiting_bytes > kMembersBytesMax) endpoint_->close(found->second);
}

void ReplicatedManager::post(ConnectionId connection, Member& member, FedEndpoint::Parts parts) {
    if (member.waiting.empty() && endpoint_->send(connection, parts) != Post::kNotNow) return;
    std::vector<std::byte>& message = member.waiting.emplace_back();
    for (const auto part : parts)
        message.insert(message.end(), part.begin(), part.end());
    member.waiting_bytes += message.size();
    unposted_.insert(connection);
}

void ReplicatedManager::close(ConnectionId number) {
    const auto found = by_number_.find(number);
    if (found == by_number_.end()) return;
    const ConnectionId connection = found->second;
    by_number_.erase(found);
    Member& member = members_.at(connection);
    member.number = 0;
    member.is_closing = true;
    if (member.waiting.empty()) endpoint_->close(connection);
}

std::string ReplicatedManager::name_of(ConnectionId number) const {
    const auto found = by_number_.find(number);
    return found == by_number_.end() ? "a process that is out of reach"
                                     : endpoint_->peer_name(found->second);
}

void ReplicatedManager::refuse(ConnectionId connection) {
    wire::FrameHeader header = wire::header_of(Kind::kShutdown);
    header.status = Errc::kAgain;
    const std::vector<std::byte> body =
        encode_text("another manager of the job leads, or will in a moment");
    header.body_bytes = static_cast<uint32_t>(body.size());
    const std::array<std::span<const std::byte>, 2> parts{wire::bytes_of(header), body};
    (void)endpoint_->send(connection, parts);
    members_.at(connection).is_closing = true;
    endpoint_->close(connection);
}

size_t ReplicatedManager::post_waiting() {
    size_t posted = 0;
    for (const ConnectionId connection : std::exchange(unposted_, {})) {
        Member& member = members_.at(connection);
        while (!member.waiting.empty()) {
            const std::span<const std::byte> part = member.waiting.front();
            if (endpoint_->send(connection, std::span(&part, 1)) == Post::kNotNow) break;
            member.waiting_bytes -= part.size();
            member.waiting.pop_front();
            ++posted;
        }
        if (!member.waiting.empty()) {
            unposted_.insert(connection);
        } else if (member.is_closing) {
            endpoint_->close(connection);
        }
    }
    return posted;
}

/// It leads no more. Who only wants to know who leads stays.
void ReplicatedManager::close_all() {
    by_number_.clear();
    for (auto& [connection, member] : members_) {
        if (member.number == 0) continue;
        unposted_.erase(connection);
        member = {.is_closing = true};
        endpoint_->close(connection);
    }
}

/// Tells who wants to know when another manager leads.
size_t ReplicatedManager::announce() {
    if (log_->finished())  // it knows nothing any more
        return std::exchange(announced_its_end_, true) ? 0 : tell_watchers();
    const consensus::Leadership now = log_->leadership();
    if (now.leader != 0) led_ns_ = clock_.now_ns();
    const bool is_same = now.term == announced_.term && now.leader == announced_.leader &&
                         leads_ == announced_itself_;
    if (is_same) return 0;
    announced_ = now;
    announced_itself_ = leads_;
    return tell_watchers();
}

size_t ReplicatedManager::tell_watchers() {
    size_t told = 0;
    for (auto& [connection, member] : members_) {
        if (!member.is_watcher) continue;
        tell_leader(connection, member);
        ++told;
    }
    return told;
}

/// Each names only itself, and once it has taken over; or says that it takes no part any more, which is for good.
/// The end of a connection over which this was told proves to the process the end of this one: so it is not
/// closed, whatever happens.
void ReplicatedManager::tell_leader(ConnectionId connection, Member& member) {
    member.waiting.clear();  // only the last one counts
    member.waiting_bytes = 0;
    const consensus::Leadership now = log_->leadership();
    wire::FrameHeader header = wire::header_of(Kind::kLeader);
    header.request = now.term;
    if (log_->finished()) header.status = Errc::kUnavailable;
    for (size_t i = 0; i < options_.log.members.size(); ++i) {
        const uint64_t id = options_.log.members[i].id;
        if (id == now.leader && id == options_.log.self && leads_) header.first = i + 1;
    }
    const std::array parts{wire::bytes_of(header)};
    post(connection, member, parts);
}

// The thread, and the end.

int ReplicatedManager::arm() {
    if (!unposted_.empty() || !came_.empty()) return -1;
    const int members = endpoint_->arm();
    if (log_->finished()) return members;
    const int managers = members < 0 ? -1 : log_->arm();
    if (managers < 0) return -1;
    if (!poller_) {
        poller_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
        for (const int fd : {members, managers}) {
            epoll_event wanted{};
            wanted.events = EPOLLIN;
            if (::epoll_ctl(poller_.get(), EPOLL_CTL_ADD, fd, &wanted) == 0) continue;
            poller_ = Descriptor();
            return -1;
        }
    }
    return poller_.get();
}

uint64_t ReplicatedManager::sleep_ns_max() const noexcept {
    const bool looks_often = ending_since_ns_ != 0 || disk_->is_busy();
    const uint64_t of_log_ns = log_->finished() ? ~uint64_t{0} : log_->sleep_ns_max();
    return std::min(of_log_ns, looks_often ? kMillisecond : tick_ns());
}

void ReplicatedManager::look_for_end() {
    const uint64_t now_ns = clock_.now_ns();
    if (log_->finished() && !std::exchange(has_failed_, true))
        log(LogLevel::kError,
            "the manager in this process takes no part any more, and the job goes on with the "
            "others as long "
            "as they are most of the {}: {}",
            options_.places.size(), log_->outcome().error().message());
    if (ending_since_ns_ != 0) {
        // If who leads dies now, another one tells the members.
        const bool is_told = leads_ ? manager_->finished() : log_->leadership().leader != 0;
        const uint64_t for_ns = now_ns - ending_since_ns_;
        is_over_ = for_ns > kLingerNs && (is_told || for_ns > kAloneAtEndNs);
    } else if (options_.is_unneeded != nullptr && options_.is_unneeded->load()) {
        const bool nobody_can = options_.life != nullptr && options_.life->has_ended.load();
        is_over_ = log_->finished() || nobody_can || now_ns - led_ns_ > kAloneNs;
    }
}

bool ReplicatedManager::finished() const {
    return is_over_;
}

/// One that takes no part any more does not know how the job ends; that it does not was logged.
Status ReplicatedManager::outcome() const {
    return log_->finished() ? Status() : manager_->outcome();
}

}  // namespace weir

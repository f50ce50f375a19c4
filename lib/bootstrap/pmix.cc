// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/pmix.h"

#include <fmt/core.h>

#include "weir_features.h"

#if WEIR_HAVE_PMIX
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <pmix.h>
#endif

namespace weir::boot {

#if WEIR_HAVE_PMIX

bool have_pmix() noexcept {
    return true;
}

namespace {

constexpr uint64_t kCallTimeoutNs = 10 * kSecond;  // to requests that need no other host

/// The result of a call, shared with a thread or callback that may end after the caller's
/// deadline.
struct Outcome {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<pmix_status_t> status;
    std::string value;   // PMIx_Get
    pmix_proc_t self{};  // PMIx_Init
};

void finish_outcome(Outcome& outcome, pmix_status_t status) {
    const std::lock_guard lock(outcome.mutex);
    outcome.status = status;
    outcome.changed.notify_all();
}

/// Waits for the status; nullopt at the deadline.
std::optional<pmix_status_t> wait_outcome(Outcome& outcome, const Clock& clock,
                                          uint64_t deadline_ns) {
    std::unique_lock lock(outcome.mutex);
    while (!outcome.status) {
        const int slice_ms = poll_slice_ms(clock, deadline_ns);
        if (slice_ms == 0) return std::nullopt;
        outcome.changed.wait_for(lock, std::chrono::milliseconds(slice_ms));
    }
    return outcome.status;
}

/// Runs a call that PMIx offers in a blocking form only, in a thread of its own. If the call does
/// not end, the thread stays: it uses nothing of ours but the outcome.
std::optional<pmix_status_t> run_with_deadline(std::function<pmix_status_t(Outcome&)> call,
                                               const std::shared_ptr<Outcome>& outcome,
                                               const Clock& clock, uint64_t deadline_ns) {
    std::thread([call = std::move(call), outcome] {
        finish_outcome(*outcome, call(*outcome));
    }).detach();
    return wait_outcome(*outcome, clock, deadline_ns);
}

Error pmix_error(std::string_view what, pmix_status_t status) {
    const Errc code = status == PMIX_ERR_NOT_FOUND ? Errc::kNotFound
                      : status == PMIX_ERR_TIMEOUT ? Errc::kDeadline
                                                   : Errc::kPeerLost;
    return {code, fmt::format("PMIx: {}: {}", what, PMIx_Error_string(status))};
}

pmix_proc_t process(const pmix_proc_t& self, pmix_rank_t rank) {
    pmix_proc_t name{};
    PMIX_LOAD_PROCID(&name, self.nspace, rank);
    return name;
}

/// A number about the job or this process that the server gave at PMIx_Init.
Result<uint32_t> job_number(const pmix_proc_t& of, const char* key) {
    pmix_value_t* value = nullptr;
    const pmix_status_t status = PMIx_Get(&of, key, nullptr, 0, &value);
    if (status != PMIX_SUCCESS) return pmix_error(fmt::format("no {}", key), status);
    uint32_t number = 0;
    const bool good = value->type == PMIX_UINT32 || value->type == PMIX_UINT16;
    if (value->type == PMIX_UINT32) number = value->data.uint32;
    if (value->type == PMIX_UINT16) number = value->data.uint16;
    PMIX_VALUE_RELEASE(value);
    if (!good) return Error(Errc::kProtocol, fmt::format("PMIx: {} is not a number", key));
    return number;
}

constexpr std::string_view kHereKey = "here";

/// The ranks whose key "here" has been found so far.
struct RollCall {
    std::mutex mutex;
    std::vector<bool> here;
};

struct RollCallQuestion {
    std::shared_ptr<RollCall> call;
    uint32_t rank;
};

void take_answer(pmix_status_t status, pmix_value_t* /*value*/, void* argument) {
    const std::unique_ptr<RollCallQuestion> question(static_cast<RollCallQuestion*>(argument));
    const std::lock_guard lock(question->call->mutex);
    if (status == PMIX_SUCCESS) question->call->here[question->rank] = true;
}

/// The ranks whose key "here" the servers do not find within a second: for the error of a fence
/// that did not end. Empty if there are none, or too many to ask.
std::vector<uint32_t> silent_ranks(const pmix_proc_t& self, uint32_t size) {
    constexpr uint32_t kAskedMax = 1024;
    if (size > kAskedMax) return {};
    const auto call = std::make_shared<RollCall>();
    call->here.resize(size);
    call->here[self.rank] = true;
    const std::string key = fmt::format("weir.{}", kHereKey);
    for (uint32_t rank = 0; rank < size; ++rank) {
        if (rank == self.rank) continue;
        const pmix_proc_t of = process(self, rank);
        auto* const question = new RollCallQuestion{call, rank};
        if (PMIx_Get_nb(&of, key.c_str(), nullptr, 0, take_answer, question) != PMIX_SUCCESS) {
            delete question;
        }
    }
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const std::lock_guard lock(call->mutex);
    std::vector<uint32_t> silent;
    for (uint32_t rank = 0; rank < size; ++rank) {
        if (!call->here[rank]) silent.push_back(rank);
    }
    return silent;
}

class PmixBootstrap final : public Bootstrap {
public:
    PmixBootstrap(const Clock& clock, const pmix_proc_t& self) : clock_(clock), self_(self) {}

    Status read_job() {
        WEIR_ASSIGN(size_, job_number(process(self_, PMIX_RANK_WILDCARD), PMIX_JOB_SIZE));
        if (self_.rank >= size_) {
            return Error(Errc::kProtocol,
                         fmt::format("PMIx: rank {} in a job of {}", self_.rank, size_));
        }
        return {};
    }

    [[nodiscard]] uint32_t rank() const noexcept override { return self_.rank; }

    [[nodiscard]] uint32_t size() const noexcept override { return size_; }

    [[nodiscard]] std::string_view name() const noexcept override { return "PMIx"; }

    Status put(std::string_view key, std::string_view value) override;
    Status exchange(uint64_t deadline_ns) override;
    Result<std::string> get(uint32_t rank, std::string_view key) override;
    Status finish() override;

private:
    /// The error of an exchange that did not end; names the missing ranks if they are known.
    [[nodiscard]] Error too_late();

    [[nodiscard]] Status check_usable() const {
        if (!over_) return {};
        return Error(Errc::kCancelled, "PMIx: used after finish() or after an error");
    }

    const Clock& clock_;
    pmix_proc_t self_;
    uint32_t size_ = 1;
    bool exchanged_ = false;
    bool over_ = false;
};

Status PmixBootstrap::put(std::string_view key, std::string_view value) {
    WEIR_TRY(check_usable());
    WEIR_TRY(check_entry(key, value));
    std::string bytes(value);
    bytes += '\0';  // an empty object is not kept by every server: always send one byte more
    pmix_value_t object{};
    object.type = PMIX_BYTE_OBJECT;
    object.data.bo.bytes = bytes.data();
    object.data.bo.size = bytes.size();
    const std::string name = fmt::format("weir.{}", key);
    const pmix_status_t status = PMIx_Put(PMIX_GLOBAL, name.c_str(), &object);
    if (status != PMIX_SUCCESS) return pmix_error(fmt::format("cannot put {}", key), status);
    return {};
}

Status PmixBootstrap::exchange(uint64_t deadline_ns) {
    WEIR_TRY(check_usable());
    if (!exchanged_) WEIR_TRY(put(kHereKey, ""));
    const pmix_status_t committed = PMIx_Commit();
    if (committed != PMIX_SUCCESS) return pmix_error("cannot commit", committed);

    // The callback's argument keeps its own share of the outcome: the fence may end after our
    // deadline.
    const auto outcome = std::make_shared<Outcome>();
    auto* const share = new std::shared_ptr<Outcome>(outcome);
    const pmix_proc_t everybody = process(self_, PMIX_RANK_WILDCARD);
    pmix_info_t collect{};
    bool yes = true;
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    const pmix_status_t started = PMIx_Fence_nb(
        &everybody, 1, &collect, 1,
        [](pmix_status_t status, void* argument) {
            const std::unique_ptr<std::shared_ptr<Outcome>> held(
                static_cast<std::shared_ptr<Outcome>*>(argument));
            finish_outcome(**held, status);
        },
        share);
    if (started != PMIX_SUCCESS) {  // then the callback is never called
        delete share;
        if (started != PMIX_OPERATION_SUCCEEDED) return pmix_error("cannot start a fence", started);
        finish_outcome(*outcome, PMIX_SUCCESS);
    }
    const auto status = wait_outcome(*outcome, clock_, deadline_ns);
    if (!status || *status == PMIX_ERR_TIMEOUT) {
        over_ = true;
        return too_late();
    }
    if (*status != PMIX_SUCCESS) return pmix_error("the fence failed", *status);
    exchanged_ = true;
    return {};
}

Error PmixBootstrap::too_late() {
    const std::vector<uint32_t> silent =
        exchanged_ ? std::vector<uint32_t>() : silent_ranks(self_, size_);
    if (silent.empty()) {
        return {Errc::kDeadline,
                fmt::format("PMIx: rank {}: another of the job's {} ranks did not start in time; "
                            "see that rank's output, or raise WEIR_JOIN_TIMEOUT_S",
                            self_.rank, size_)};
    }
    return {Errc::kDeadline, fmt::format("PMIx: {} of {} did not start in time; see their "
                                         "output, or raise WEIR_JOIN_TIMEOUT_S",
                                         rank_list(silent), size_)};
}

Result<std::string> PmixBootstrap::get(uint32_t rank, std::string_view key) {
    WEIR_TRY(check_usable());
    WEIR_TRY(check_entry(key, {}));
    if (rank >= size_)
        return Error(Errc::kNotFound, fmt::format("PMIx: rank {} is not a rank of this job", rank));
    const auto outcome = std::make_shared<Outcome>();
    const auto status = run_with_deadline(
        [of = process(self_, rank), name = fmt::format("weir.{}", key)](Outcome& result) {
            // what was fenced is on this host: do not wait for a rank to put it later
            pmix_info_t at_once{};
            bool yes = true;
            PMIX_INFO_LOAD(&at_once, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
            pmix_value_t* value = nullptr;
            const pmix_status_t got = PMIx_Get(&of, name.c_str(), &at_once, 1, &value);
            if (got != PMIX_SUCCESS) return got;
            const bool good = value->type == PMIX_BYTE_OBJECT && value->data.bo.size > 0;
            if (good) result.value.assign(value->data.bo.bytes, value->data.bo.size - 1);
            PMIX_VALUE_RELEASE(value);
            return good ? PMIX_SUCCESS : PMIX_ERR_TYPE_MISMATCH;
        },
        outcome, clock_, clock_.now_ns() + kCallTimeoutNs);
    if (!status) {
        over_ = true;
        return Error(Errc::kDeadline,
                     fmt::format("PMIx: no answer about {} of rank {}", key, rank));
    }
    if (*status != PMIX_SUCCESS)
        return pmix_error(fmt::format("{} of rank {}", key, rank), *status);
    return std::move(outcome->value);
}

Status PmixBootstrap::finish() {
    if (over_) return {};
    over_ = true;
    const auto status =
        run_with_deadline([](Outcome&) { return PMIx_Finalize(nullptr, 0); },
                          std::make_shared<Outcome>(), clock_, clock_.now_ns() + kCallTimeoutNs);
    if (!status)
        return Error(Errc::kDeadline,
                     "PMIx: the launcher's server did not answer PMIx_Finalize in time");
    if (*status != PMIX_SUCCESS) return pmix_error("cannot finalize", *status);
    return {};
}

}  // namespace

Result<std::unique_ptr<Bootstrap>> open_pmix(const Clock& clock, uint64_t deadline_ns) {
    const auto outcome = std::make_shared<Outcome>();
    const auto status =
        run_with_deadline([](Outcome& result) { return PMIx_Init(&result.self, nullptr, 0); },
                          outcome, clock, deadline_ns);
    if (!status) {
        return Error(Errc::kDeadline,
                     "PMIx: the server that PMIX_SERVER_URI names did not answer in time");
    }
    if (*status != PMIX_SUCCESS) {
        return Error(
            Errc::kPeerLost,
            fmt::format("PMIx: cannot reach the server that PMIX_SERVER_URI names ({}); were "
                        "PMIX_* variables inherited from a launcher that is gone? unset them, or "
                        "give --rendezvous",
                        PMIx_Error_string(*status)));
    }
    auto made = std::make_unique<PmixBootstrap>(clock, outcome->self);
    WEIR_TRY(made->read_job());
    return std::unique_ptr<Bootstrap>(std::move(made));
}

#else

bool have_pmix() noexcept {
    return false;
}

Result<std::unique_ptr<Bootstrap>> open_pmix(const Clock& /*clock*/, uint64_t /*deadline_ns*/) {
    return Error(Errc::kUnavailable,
                 "this build has no PMIx: install libpmix-dev and build again, or use srun "
                 "--mpi=pmi2, mpiexec.hydra, or --rendezvous");
}

#endif

}  // namespace weir::boot

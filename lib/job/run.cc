// SPDX-License-Identifier: Apache-2.0
/// \file
/// The workers of a process, and run(): a process's whole part in a job.

#include <exception>
#include <mutex>
#include <new>
#include <utility>

#include <fmt/core.h>

#include "lib/base/config.h"
#include "lib/base/log.h"
#include "lib/job/job.h"
#include "lib/node/runtime.h"

namespace weir {
namespace {

using Work = std::function<Status(Client&)>;

/// What the program's function returns; an exception of it is an error.
Status outcome_of(const Work& work, Client& client) {
    try {
        return work(client);
    } catch (const std::bad_alloc&) {
        return Error(Errc::kNoMemory, "no memory is left for this process (std::bad_alloc)");
    } catch (const std::exception& thrown) {
        return Error(Errc::kException,
                     fmt::format("its function threw an exception: {}", thrown.what()));
    } catch (...) {
        return Error(Errc::kException, "its function threw something that is no std::exception");
    }
}

/// The first error of several workers. kPeerLost is mostly a consequence of another one's error.
class FirstError {
public:
    /// Thread: any
    void note(const Status& outcome, const std::string& who) {
        if (outcome) return;
        const std::lock_guard lock(mutex_);
        const bool is_better =
            first_ || (first_.code() == Errc::kPeerLost && outcome.code() != Errc::kPeerLost);
        if (!is_better) return;
        first_ = Error(outcome.code(), fmt::format("{}: {}", who, outcome.error().text()),
                       outcome.error().os_error());
    }

    Status take() { return std::move(first_); }

private:
    std::mutex mutex_;
    Status first_;
};

}  // namespace

Status Job::run_workers(const Work& work) {
    FirstError first;
    Runtime threads(IdleOptions{});
    for (uint32_t i = 0; i < shape().local_workers; ++i) {
        const std::string who = fmt::format("worker {}", shape().first_worker + i);
        threads.run(
            [&, i, who] {
                Result<Client> client = make_client(i);
                if (!client) {  // the others wait for it: at least it is said at once
                    log(LogLevel::kError, "{}: {}", who, client.error().text());
                    return first.note(client.error(), who);
                }
                const Status outcome = outcome_of(work, *client);
                const Status left = client->leave(outcome);
                first.note(outcome ? left : outcome, who);
            },
            who);
    }
    threads.join();
    return first.take();
}

Status run(const JobOptions& options, const Config& config, const Work& train) {
    WEIR_ASSIGN(const std::unique_ptr<Job> job, Job::start(options, config));
    Status worked = job->run_workers(train);
    Status served = job->serve();  // also after an error: others may need its servers
    return worked ? std::move(served) : std::move(worked);
}

Status run(const JobOptions& options, const Work& train) {
    return run(options, Config::of_process(), train);
}

}  // namespace weir

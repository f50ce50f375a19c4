// SPDX-License-Identifier: Apache-2.0
#include "lib/job/job.h"

#include <utility>

#include "lib/base/config.h"
#include "lib/job/job_variables.h"
#include "lib/job/part/job_part.h"

namespace weir {

Job::Job(std::unique_ptr<Part> part) : part_(std::move(part)) {}

Job::~Job() = default;

namespace {

Error told(const Error& why, const Config& config) {
    return {why.code(), in_variables(why.text(), config), why.os_error()};
}

}  // namespace

Result<std::unique_ptr<Job>> Job::start(const JobOptions& options, const Config& config) {
    auto part = std::make_unique<Part>(options, config);
    if (const Status started = part->start(); !started) return told(started.error(), config);
    return std::unique_ptr<Job>(new Job(std::move(part)));
}

Result<std::unique_ptr<Job>> Job::start(const JobOptions& options) {
    return start(options, Config::of_process());
}

Result<std::unique_ptr<Job>> Job::join(const JoinOptions& options, const Config& config) {
    auto part = std::make_unique<Part>(JobOptions{}, config);
    if (const Status joined = part->join(options); !joined) return told(joined.error(), config);
    return std::unique_ptr<Job>(new Job(std::move(part)));
}

Result<std::unique_ptr<Job>> Job::join(const JoinOptions& options) {
    return join(options, Config::of_process());
}

const JobShape& Job::shape() const noexcept {
    return part_->shape();
}

Result<Client> Job::make_client(uint32_t i) {
    return part_->make_client(i);
}

Status Job::serve() {
    return part_->serve({}, {});
}

Status Job::serve(const std::function<bool()>& wants_to_leave,
                  const std::function<bool()>& must_end) {
    return part_->serve(wants_to_leave, must_end);
}

Status Job::leave() {
    return part_->leave();
}

Status Job::give_back_work(Client& client) {
    return part_->give_back_work(client);
}

bool Job::leads() const {
    return part_->leads();
}

}  // namespace weir

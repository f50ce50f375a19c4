// SPDX-License-Identifier: Apache-2.0
#include "lib/server/iterations/open_iterations.h"

namespace weir {

IterationProgress::Failure OpenIterations::judge_arguments(uint64_t iteration, uint32_t worker,
                                                           const RuleArguments& arguments) const {
    const Open& its = open_[iteration % open_.size()];
    if (!its.arguments || *its.arguments == arguments) return {Errc::kOk, worker};
    return {Errc::kDifferentArguments, worker, its.first_worker};
}

void OpenIterations::set_arguments(uint64_t iteration, uint32_t worker,
                                   const RuleArguments& arguments) {
    Open& its = open(iteration);
    WEIR_CHECK(!its.arguments || *its.arguments == arguments);
    if (its.arguments) return;
    its.arguments = arguments;
    its.first_worker = worker;
}

std::optional<IterationProgress::Failure> OpenIterations::arrived(uint64_t iteration,
                                                                  const Part& part, uint32_t parts,
                                                                  const Failure& outcome) {
    if (outcome.status != Errc::kOk) {
        state_.fail(iteration, outcome);
        drop_sum(iteration);
    }
    state_.arrived(iteration, part.worker, parts);
    const std::optional<Failure> failure = state_.hopeless(iteration, part.worker);
    if (!failure) open(iteration).parts.push_back(part);
    return failure;
}

std::optional<IterationProgress::Failure> OpenIterations::excuse(uint64_t iteration,
                                                                 const Part& part, Errc status) {
    state_.fail(iteration, {status, part.worker});
    drop_sum(iteration);
    if (const auto failure = state_.hopeless(iteration, part.worker)) return failure;
    std::vector<Part>& parts = open(iteration).parts;
    const auto before = std::ranges::find_if(
        parts, [&](const Part& p) { return p.is_excuse && p.worker == part.worker; });
    if (before != parts.end()) {
        if (before->connection == part.connection) return state_.failure_of(iteration);
        parts.erase(before);  // nobody waits for its reply
    }
    parts.push_back(part);
    parts.back().is_excuse = true;
    return std::nullopt;
}

void OpenIterations::set_withdrawals(std::vector<IterationProgress::Withdrawal> withdrawals) {
    state_.set_withdrawals(std::move(withdrawals));
    for (uint64_t i = state_.first_open(); i <= state_.last_open(); ++i) {
        if (state_.failure_of(i)) drop_sum(i);
    }
}

bool OpenIterations::arrived_again(uint64_t iteration, const Part& part, uint32_t parts) {
    state_.arrived(iteration, part.worker, parts);
    if (state_.hopeless(iteration, part.worker)) return false;
    open(iteration).parts.push_back(part);
    open(iteration).parts.back().is_closed = true;
    return true;
}

bool OpenIterations::replace(uint64_t iteration, const Part& again) noexcept {
    for (Part& part : open(iteration).parts) {
        if (!part.has_name_of(again)) continue;
        part.connection = again.connection;
        part.request = again.request;
        return true;
    }
    return false;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/core/lost_errors.h"

#include <string_view>

#include <fmt/core.h>

#include "lib/base/log.h"

namespace weir {

void LostErrors::lose_outcome(Calls::Id call_id) {
    const Call* const call = calls_.find(call_id);
    if (call == nullptr || call->status) return;
    const std::string what = call->table == Call::kNoTable
                                 ? std::string("a call")
                                 : fmt::format("{} {}", call->is_push ? "a push to" : "a pull from",
                                               tables_.text(call->table));
    lose(Error(call->status.code(),
               fmt::format("{} failed: {}", what, call->status.error().text())));
}

void LostErrors::lose(const Error& error) {
    ++counters_.errors_lost;
    // Every further call says the same.
    if (!standing_.failure() || error.code() == Errc::kReassigned) return;
    // Up to here it names call and table; what follows differs by keys, iterations and times.
    const std::string_view text = error.text();
    const std::string which =
        fmt::format("{} {}", text.substr(0, text.find(" failed: ")), to_string(error.code()));
    constexpr size_t kLoggedMax = 1024;
    if (logged_.size() == kLoggedMax || !logged_.insert(which).second) return;
    log(LogLevel::kWarning,
        "{}: {}; nobody has asked for this error (a Task was destroyed without wait(), a Scan "
        "without status(), or Tasks with an error, or it is not the first error of a Tasks): it "
        "may have lost values. Further ones like it are only counted (ClientStats::errors_lost)",
        standing_.name(), text);
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/lr/lr_parting.h"

#include <csignal>

#include "tools/weir/stop_signals.h"

namespace weir::tools {

/// Until the signal has settled, only the process of the manager that leads can tell that the whole job is being
/// stopped: if it has the signal, too, the training ends at once.
Result<int> Parting::decide() {
    if (client_.is_stopping()) {
        note_stop_command();
        is_possible_ = false;
    }
    const int signal = stop_signal();
    if (signal != SIGTERM || !is_possible_) return signal;
    const bool has_settled = stop_signal_has_settled();
    const Status may = has_settled ? job_.give_back_work(client_) : may_give_back();
    if (may.code() == Errc::kCancelled || may.code() == Errc::kUnavailable) {
        is_possible_ = false;
        is_last_ = may.code() == Errc::kUnavailable;
        return signal;
    }
    WEIR_TRY(may);
    if (!has_settled) return 0;
    has_given_back_ = true;
    return stopped_by(signal, "the others have the work of this worker");
}

/// What the manager that leads says before the signal has settled. If it is in this process, it knows of no other
/// signal: this worker goes on, and ranks that get the signal, too, end the training. The next manager knows.
Status Parting::may_give_back() {
    return job_.leads() ? Status() : client_.may_give_back_work();
}

bool Parting::stops_reading() {
    if (std::this_thread::get_id() == thread_ && client_.is_stopping()) note_stop_command();
    return is_possible_ && stop_signal() == SIGTERM ? stop_signal_has_settled()
                                                    : stop_signal() != 0;
}

}  // namespace weir::tools

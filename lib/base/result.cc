// SPDX-License-Identifier: Apache-2.0
#include "lib/base/result.h"

#include <cstring>
#include <utility>

#include "lib/base/check.h"

namespace weir {

std::string_view to_string(Errc code) noexcept {
    switch (code) {
        case Errc::kOk: return "ok";
        case Errc::kInvalidArgument: return "invalid argument";
        case Errc::kOutOfRange: return "out of range";
        case Errc::kNotFound: return "not found";
        case Errc::kTypeMismatch: return "type mismatch";
        case Errc::kAlreadyExists: return "already exists";
        case Errc::kStaleEpoch: return "stale epoch";
        case Errc::kUnknownList: return "unknown list";
        case Errc::kDeadline: return "deadline exceeded";
        case Errc::kPeerLost: return "peer lost";
        case Errc::kRefused: return "refused";
        case Errc::kNoMemory: return "no memory";
        case Errc::kUnavailable: return "unavailable";
        case Errc::kProtocol: return "protocol violation";
        case Errc::kNotFinite: return "not finite";
        case Errc::kIo: return "input/output error";
        case Errc::kParse: return "cannot be parsed";
        case Errc::kCancelled: return "cancelled";
        case Errc::kBusy: return "busy";
        case Errc::kInterrupted: return "stopped by SIGINT";
        case Errc::kTerminated: return "stopped by SIGTERM";
        case Errc::kAgain: return "to be sent again";
        case Errc::kReassigned: return "work is assigned anew";
        case Errc::kException: return "exception";
        case Errc::kTwoThreads: return "used by two threads";
        case Errc::kDifferentArguments: return "different arguments";
    }
    return "unknown error";
}

Error::Error(Errc code, std::string text, int os_error)
    : state_(new State{code, os_error, std::move(text)}) {
    WEIR_CHECK(code != Errc::kOk);
}

Error::Error(const Error& other) : state_(new State(*other.state_)) {}

Error& Error::operator=(const Error& other) {
    if (this != &other) state_.reset(new State(*other.state_));
    return *this;
}

void Error::Release::operator()(State* state) const noexcept {
    delete state;
}

std::string Error::message() const {
    if (state_->os_error == 0) return state_->text;
    return state_->text + ": " + std::strerror(state_->os_error);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace weir

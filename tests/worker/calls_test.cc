// SPDX-License-Identifier: Apache-2.0
/// \file
/// When a call ends, with which error, and when it is forgotten.

#include "lib/worker/calls/calls.h"

#include <doctest/doctest.h>

namespace weir::test {
namespace {

bool is_not_needed(Calls::Id) {
    return false;
}

bool is_needed(Calls::Id) {
    return true;
}

}  // namespace

TEST_SUITE("calls") {
    TEST_CASE("a call ends with its last request, not while it is starting") {
        Calls calls;
        Calls::Id id = 0;
        Call* const call = calls.begin(id);
        REQUIRE(call != nullptr);
        ++call->open_requests;
        call->note_error(Error(Errc::kIo, "first"));
        calls.request_ended(id, is_not_needed);  // an error before the call has started
        CHECK_FALSE(calls.done(id));
        ++call->open_requests;
        calls.started(id, *call, is_needed);
        CHECK_FALSE(calls.done(id));
        call->note_error(Error(Errc::kPeerLost, "second"));
        calls.request_ended(id, is_needed);
        CHECK(calls.done(id));
        CHECK(calls.take(id).code() == Errc::kIo);
        CHECK(calls.find(id) == nullptr);
    }

    TEST_CASE("a call without requests ends when it is started") {
        Calls calls;
        Calls::Id id = 0;
        Call* const call = calls.begin(id);
        calls.started(id, *call, is_needed);
        CHECK(calls.done(id));
        CHECK(calls.take(id).has_value());
    }

    TEST_CASE("after an error it ends as soon as no open request needs the caller's memory") {
        Calls calls;
        Calls::Id id = 0;
        Call* const call = calls.begin(id);
        call->open_requests += 3;
        calls.started(id, *call, is_needed);
        calls.request_ended(id, is_not_needed);
        CHECK_FALSE(calls.done(id));  // no error yet
        call->note_error(Error(Errc::kNoMemory, "full"));
        calls.request_ended(id, is_not_needed);
        CHECK(calls.done(id));
        CHECK(calls.find(id)->open_requests == 1);
    }

    TEST_CASE("a call that was failed keeps its outcome, whatever its requests bring later") {
        Calls calls;
        Calls::Id id = 0;
        Call* const call = calls.begin(id);
        ++call->open_requests;
        calls.started(id, *call, is_needed);
        call->fail(Error(Errc::kDeadline, "late"));
        CHECK(calls.done(id));
        call->note_error(Error(Errc::kIo, "later"));
        call->fail(Error(Errc::kIo, "later"));
        CHECK(calls.take(id).code() == Errc::kDeadline);
        CHECK(calls.find(id) != nullptr);  // its request is still open
        calls.request_ended(id, is_not_needed);
        CHECK(calls.find(id) == nullptr);
        CHECK(calls.done(id));
    }

    TEST_CASE("a call that is dropped goes on, and is released with its last request") {
        Calls calls;
        Calls::Id id = 0;
        Call* const call = calls.begin(id);
        ++call->open_requests;
        calls.started(id, *call, is_needed);
        calls.drop(id);
        CHECK_FALSE(calls.done(id));
        CHECK(call->state == Call::State::kUnwatched);
        calls.request_ended(id, is_not_needed);
        CHECK(calls.find(id) == nullptr);
    }

    TEST_CASE("of a call that there was no room for, take says so") {
        Calls calls;
        CHECK(calls.take(0).code() == Errc::kBusy);
        const Calls::Id id = calls.failed(Error(Errc::kNotFound, "no table"));
        CHECK(calls.done(id));
        CHECK(calls.take(id).code() == Errc::kNotFound);
        CHECK(calls.find(id) == nullptr);
    }
}

}  // namespace weir::test

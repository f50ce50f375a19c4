// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Result<T> and Status: report what a peer, a file or a user can cause.
/// The member names are those of std::expected, so that the switch to it is a search and replace.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lib/base/check.h"

namespace weir {

/// What went wrong, as a program sees it; the text of an Error is for people.
/// The numbers travel on the wire: add at the end, never reuse.
enum class Errc : uint16_t {
    kOk = 0,
    kInvalidArgument = 1,      ///< the caller's request is wrong (flag, size, unsorted keys)
    kOutOfRange = 2,           ///< a key, offset or length outside of what exists
    kNotFound = 3,             ///< no such table, file, peer or device
    kTypeMismatch = 4,         ///< the table has another value type or width
    kAlreadyExists = 5,        ///< made before, with other properties; or a port in use
    kStaleEpoch = 6,           ///< the view has changed since
    kUnknownList = 7,          ///< the key list with this hash is not (or no longer) remembered
    kDeadline = 8,             ///< not finished in time
    kPeerLost = 9,             ///< the connection to a peer broke, or the peer died
    kRefused = 10,             ///< a peer refused (wrong secret, wrong role)
    kNoMemory = 11,            ///< out of memory, shared memory or locked memory
    kUnavailable = 12,         ///< this machine or build cannot do that
    kProtocol = 13,            ///< a peer sent something malformed
    kNotFinite = 14,           ///< NaN or infinity where the table does not allow it
    kIo = 15,                  ///< the operating system refused a read, write or other call
    kParse = 16,               ///< text that is not what it should be
    kCancelled = 17,           ///< ended by its owner before it was complete
    kBusy = 18,                ///< a limit of simultaneous use is reached
    kInterrupted = 19,         ///< SIGINT stopped the job: a person asked for it
    kTerminated = 20,          ///< SIGTERM stopped the job: a person or the launcher asked for it
    kAgain = 21,               ///< what was sent before it was not executed: it is sent again, too
    kReassigned = 22,          ///< workers have come or gone, and the work is to be taken anew
    kException = 23,           ///< code of the program threw an exception
    kTwoThreads = 24,          ///< a client was used while another thread used it
    kDifferentArguments = 25,  ///< workers have pushed different arguments in an iteration
};
inline constexpr Errc kErrcLast = Errc::kDifferentArguments;

/// The name of a code as programs and logs show it ("peer lost").
[[nodiscard]] std::string_view to_string(Errc code) noexcept;

/// Whether a signal stopped the job: kInterrupted, kTerminated.
[[nodiscard]] constexpr bool was_stopped(Errc code) noexcept {
    return code == Errc::kInterrupted || code == Errc::kTerminated;
}

/// An error: a code for the program, a text for people that names the thing and what to do, and
/// errno (0 if there is none).
///
/// What is done only with errors is cold: compilers put it, and what leads to it, far from what is done
/// with each push.
class Error {
public:
    [[gnu::cold]] Error(Errc code, std::string text, int os_error = 0);
    [[gnu::cold]] Error(const Error& other);
    [[gnu::cold]] Error& operator=(const Error& other);
    Error(Error&&) noexcept = default;
    Error& operator=(Error&&) noexcept = default;
    ~Error() = default;

    [[nodiscard]] Errc code() const noexcept { return state_->code; }

    [[nodiscard]] int os_error() const noexcept { return state_->os_error; }

    [[nodiscard]] const std::string& text() const noexcept { return state_->text; }

    /// One line for a person: the text and, if there is an errno, the operating system's text for
    /// it.
    [[nodiscard]] std::string message() const;

private:
    friend class Status;

    struct State {
        Errc code;
        int os_error;
        std::string text;
    };

    struct Release {
        [[gnu::cold]] void operator()(State* state) const noexcept;
    };

    Error() = default;  // only inside an ok Status
    std::unique_ptr<State, Release> state_;
};

/// Ok, or an Error. One pointer wide; the ok path allocates nothing.
class [[nodiscard]] Status {
public:
    Status() noexcept = default;

    Status(Error error) noexcept : error_(std::move(error)) {}  // NOLINT: implicit on purpose

    Status(Status&&) noexcept = default;
    Status& operator=(Status&&) noexcept = default;

    Status(const Status& other) {
        if (!other.has_value()) error_ = Error(other.error_);
    }

    Status& operator=(const Status& other) {
        if (this != &other) *this = Status(other);
        return *this;
    }

    ~Status() = default;

    [[nodiscard]] bool has_value() const noexcept { return error_.state_ == nullptr; }

    [[nodiscard]] explicit operator bool() const noexcept { return has_value(); }

    [[nodiscard]] Errc code() const noexcept { return has_value() ? Errc::kOk : error_.code(); }

    /// Aborts if there is none.
    [[nodiscard]] const Error& error(const char* file = __builtin_FILE(),
                                     int line = __builtin_LINE()) const& {
        if (has_value()) error_of_value(file, line);
        return error_;
    }

    [[nodiscard]] Error&& error(const char* file = __builtin_FILE(),
                                int line = __builtin_LINE()) && {
        if (has_value()) error_of_value(file, line);
        return std::move(error_);
    }

private:
    Error error_;
};

/// A value, or the Error that kept it from being made.
template <class T>
class [[nodiscard]] Result {
    static_assert(!std::is_reference_v<T>);

public:
    Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit on purpose

    Result(Error error) noexcept : status_(std::move(error)) {}  // NOLINT: implicit on purpose

    [[nodiscard]] bool has_value() const noexcept { return value_.has_value(); }

    [[nodiscard]] explicit operator bool() const noexcept { return has_value(); }

    /// The value. If there is an error instead: prints it and the place of this call, and aborts.
    [[nodiscard]] T& value(const char* file = __builtin_FILE(), int line = __builtin_LINE()) & {
        if (!has_value()) no_value(file, line);
        return *value_;
    }

    [[nodiscard]] const T& value(const char* file = __builtin_FILE(),
                                 int line = __builtin_LINE()) const& {
        if (!has_value()) no_value(file, line);
        return *value_;
    }

    [[nodiscard]] T&& value(const char* file = __builtin_FILE(), int line = __builtin_LINE()) && {
        if (!has_value()) no_value(file, line);
        return *std::move(value_);
    }

    /// As value(), but the message has no place.
    [[nodiscard]] T& operator*() & { return value(nullptr, 0); }

    [[nodiscard]] const T& operator*() const& { return value(nullptr, 0); }

    [[nodiscard]] T&& operator*() && { return std::move(*this).value(nullptr, 0); }

    [[nodiscard]] T* operator->() { return &value(nullptr, 0); }

    [[nodiscard]] const T* operator->() const { return &value(nullptr, 0); }

    [[nodiscard]] Errc code() const noexcept { return status_.code(); }

    /// Aborts if there is none.
    [[nodiscard]] const Error& error(const char* file = __builtin_FILE(),
                                     int line = __builtin_LINE()) const& {
        return status_.error(file, line);
    }

    [[nodiscard]] Error&& error(const char* file = __builtin_FILE(),
                                int line = __builtin_LINE()) && {
        return std::move(status_).error(file, line);
    }

private:
    [[noreturn]] void no_value(const char* file, int line) const noexcept {
        value_of_error(status_.error().message().c_str(), file, line);
    }

    std::optional<T> value_;
    Status status_;
};

}  // namespace weir

/// If `expression` (a Status or Result) has an error: returns that from the enclosing function.
#define WEIR_TRY(expression)                             \
    do {                                                 \
        if (auto weir_try_ = (expression); !weir_try_) { \
            return std::move(weir_try_).error();         \
        }                                                \
    } while (false)

#define WEIR_CONCAT_INNER(a, b) a##b
#define WEIR_CONCAT(a, b) WEIR_CONCAT_INNER(a, b)
/// `WEIR_ASSIGN(auto x, make_x());` declares x from a Result or returns its error.
/// (A declaration cannot be in parentheses.)
#define WEIR_ASSIGN(declaration, expression)                           \
    auto WEIR_CONCAT(weir_result_, __LINE__) = (expression);           \
    if (!WEIR_CONCAT(weir_result_, __LINE__))                          \
        return std::move(WEIR_CONCAT(weir_result_, __LINE__)).error(); \
    declaration = std::move(WEIR_CONCAT(weir_result_, __LINE__)).value()  // NOLINT: it declares

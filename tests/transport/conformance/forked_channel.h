// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Calls between the two processes of a forked fabric: a list of values, and at most one
/// descriptor.

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "lib/base/check.h"
#include "lib/base/result.h"
#include "transport/transport.h"

namespace weir::transport::conformance {

enum class Call : uint8_t {
    kShareMemory,
    kRegister,
    kDeregister,
    kMakeEndpoint,
    kDestroyEndpoint,
    kConnect,
    kClose,
    kSend,
    kExpose,
    kRead,
    kWrite,
    kWriteImmediate,
    kFlush,
    kPoll,
    kArm,
    kPeerName,
    kCounters,
    kCapabilities,
    kUsage,
};

/// A serialised list of values. No types are sent: both processes run the same program.
class Values {
public:
    Values() = default;

    explicit Values(std::string bytes) : bytes_(std::move(bytes)) {}

    template <class T>
    Values& put(const T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        return put_bytes(&value, sizeof value);
    }

    Values& put_text(std::string_view text) {
        put(text.size());
        return put_bytes(text.data(), text.size());
    }

    template <class T>
    Values& put_result(const Result<T>& result) {
        put(result.code());
        return result.has_value() ? put(*result) : put_text(result.error().text());
    }

    template <class T>
    [[nodiscard]] T get() {
        T value;
        get_bytes(&value, sizeof value);
        return value;
    }

    [[nodiscard]] std::string get_text() {
        std::string text(get<size_t>(), '\0');
        get_bytes(text.data(), text.size());
        return text;
    }

    template <class T>
    [[nodiscard]] Result<T> get_result() {
        const auto code = get<Errc>();
        if (code != Errc::kOk) return Error(code, get_text());
        return get<T>();
    }

    [[nodiscard]] const std::string& bytes() const { return bytes_; }

private:
    Values& put_bytes(const void* from, size_t length) {
        bytes_.append(static_cast<const char*>(from), length);
        return *this;
    }

    void get_bytes(void* to, size_t length) {
        WEIR_CHECK(length <= bytes_.size() - at_);
        if (length > 0) std::memcpy(to, bytes_.data() + at_, length);
        at_ += length;
    }

    std::string bytes_;
    size_t at_ = 0;
};

/// One end of the socket between the processes.
class Channel {
public:
    /// Owns the descriptor.
    explicit Channel(int fd) : fd_(fd) {}

    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;
    ~Channel();

    struct Parcel {
        Values values;
        int fd = -1;  ///< the receiver closes it
    };

    /// False or nothing if the other end is closed.
    bool send(const Values& values, int fd = -1);
    [[nodiscard]] std::optional<Parcel> receive();
    /// Shuts the socket down, which makes the other end's receive() return nothing.
    void hang_up();

private:
    const int fd_;
};

/// Runs process 1: answers calls until the channel is closed.
void serve_calls(Channel& channel, Result<std::unique_ptr<Device>> device);

}  // namespace weir::transport::conformance

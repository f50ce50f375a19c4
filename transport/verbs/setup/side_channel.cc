// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/setup/side_channel.h"

#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "transport/net/own_address.h"

namespace weir::transport::verbs {

namespace {

Watcher::For interest(bool wants_output) {
    return wants_output ? Watcher::For::kInputAndOutput : Watcher::For::kInput;
}

}  // namespace

Status SideChannel::dial(const SocketAddress& to, uint32_t silence_ms_max, Watcher& watcher,
                         uint64_t name) {
    WEIR_ASSIGN(Socket socket, Socket::connect(to, silence_ms_max));
    return take(std::move(socket), State::kDialing, watcher, name);
}

Status SideChannel::adopt(Descriptor fd, uint32_t silence_ms_max, Watcher& watcher, uint64_t name) {
    return take(Socket(std::move(fd), silence_ms_max), State::kUp, watcher, name);
}

Status SideChannel::take(Socket socket, State state, Watcher& watcher, uint64_t name) {
    socket_ = std::move(socket);
    state_ = state;
    watcher_ = &watcher;
    name_ = name;
    wants_output_ = state == State::kDialing;  // it becomes writable once it is connected
    return watcher.watch(socket_.fd(), name, interest(wants_output_));
}

void SideChannel::reset(const Secret& secret, const Nonce& nonce) {
    close();
    handshake_ = ClaimHandshake(side_, secret, nonce);
}

Status SideChannel::finish_connect() {
    if (state_ != State::kDialing) return {};
    if (const int code = socket_.failure(); code != 0) {
        return Error(Errc::kPeerLost,
                     fmt::format("cannot connect to its side channel; {}", kBindAdvice), code);
    }
    state_ = State::kUp;
    return {};
}

SideChannel::Got SideChannel::receive() {
    if (state_ != State::kUp) return Got::kNothing;
    std::array<std::byte, 512> bytes;
    size_t count = 0;
    const auto got =
        socket_.receive(std::span(bytes).first(std::min(bytes.size(), handshake_.room())), count);
    if (got == Socket::Got::kNothing) return Got::kNothing;
    if (got != Socket::Got::kSome) return got;
    handshake_.append(std::span(bytes).first(count));
    return Got::kSome;
}

Status SideChannel::send() {
    if (state_ != State::kUp || !socket_.send(handshake_.output())) return {};
    const bool wants_output = !handshake_.output().empty();
    if (wants_output == wants_output_) return {};
    wants_output_ = wants_output;
    return watcher_->watch(socket_.fd(), name_, interest(wants_output));
}

void SideChannel::close() {
    if (state_ == State::kClosed) return;
    static_cast<void>(socket_.send(handshake_.output()));
    watcher_->forget(socket_.fd());
    socket_.close();
    state_ = State::kClosed;
}

void SideChannel::break_off() {
    if (state_ == State::kClosed) return;
    watcher_->forget(socket_.fd());
    socket_.reset();
    state_ = State::kClosed;
}

}  // namespace weir::transport::verbs

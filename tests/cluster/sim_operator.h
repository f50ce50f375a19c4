// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SimOperator: one `weir leave` in a simulated cluster, or a server that was told to end and asks for itself. It
/// does not block, and does not ask again if its connection breaks.

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "lib/base/byte_codec.h"
#include "lib/wire/messages.h"
#include "tests/frames.h"
#include "transport/transport.h"

namespace weir::test {

class SimOperator {
public:
    SimOperator(std::unique_ptr<transport::Endpoint> endpoint, const std::string& manager_address,
                uint32_t server, bool asks_itself)
        : endpoint_(std::move(endpoint)),
          connection_(endpoint_->connect(manager_address).value()),
          server_(server),
          asks_itself_(asks_itself) {}

    size_t poll() {
        const size_t count = endpoint_->poll(completions_);
        for (const transport::Completion& completion : std::span(completions_).first(count)) {
            if (completion.event == transport::Event::kConnected) ask();
            const bool is_answer = completion.event == transport::Event::kReceived;
            finished_ |= is_answer || completion.event == transport::Event::kClosed;
        }
        return count;
    }

    /// It has its answer, or will get none.
    [[nodiscard]] bool finished() const { return finished_; }

private:
    void ask() {
        JoinMessage join;
        join.role = JoinMessage::Role::kOperator;
        (void)testing::send_frame(*endpoint_, connection_, testing::frame_header(wire::Kind::kJoin),
                                  join.encode());
        wire::FrameHeader header = testing::frame_header(wire::Kind::kLeave, 1);
        header.first = server_;
        ByteWriter joiner;
        if (asks_itself_) joiner.number(uint64_t{0});
        (void)testing::send_frame(*endpoint_, connection_, header, joiner.bytes());
    }

    std::unique_ptr<transport::Endpoint> endpoint_;
    transport::ConnectionId connection_;
    uint32_t server_;
    bool asks_itself_;
    bool finished_ = false;
    std::array<transport::Completion, 4> completions_;
};

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// OpenRendezvous: the rendezvous of a running job. It tells newcomers, and the commands of people,
/// how to reach the job's manager.

#include <memory>
#include <string>

#include "lib/bootstrap/contact.h"
#include "lib/bootstrap/rendezvous/rendezvous_listener.h"

namespace weir::boot {

/// Thread: one at a time
class OpenRendezvous final : private RendezvousListener::Owner {
public:
    /// `is_secured`: the rendezvous has a secret (WEIR_SECRET_FILE), which is the job's: who is
    /// let in knows it, and it is not sent.
    OpenRendezvous(std::unique_ptr<RendezvousListener> listener, bool is_secured, Contact contact)
        : listener_(std::move(listener)), is_secured_(is_secured), contact_(std::move(contact)) {}

    [[nodiscard]] uint16_t port() const noexcept { return listener_->port(); }

    /// Does what there is to do, without waiting. Returns 0 if that was nothing.
    size_t poll() { return listener_->poll(*this, 0); }

    /// A descriptor to sleep on, for a second at most: poll() also closes connections that are
    /// late.
    [[nodiscard]] int arm() { return listener_->arm(*this); }

private:
    using Connection = RendezvousListener::Connection;

    [[nodiscard]] Status check(const RendezvousHello& hello) override;
    void admitted(Connection& connection) override;
    [[nodiscard]] Status take(Connection& connection, const RendezvousMessage& message) override;

    [[nodiscard]] bool may_end(const Connection& /*connection*/) const override { return true; }

    void ended(const Connection& /*connection*/) override {}

    void refused(const std::string& /*reason*/) override {}

    std::unique_ptr<RendezvousListener> listener_;
    bool is_secured_;
    Contact contact_;
};

}  // namespace weir::boot

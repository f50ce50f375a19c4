// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RendezvousMachine: the open rendezvous of a running job, as a machine of the Runtime.

#include <memory>
#include <string>
#include <utility>

#include "lib/bootstrap/rendezvous/open_rendezvous.h"
#include "lib/node/state_machine.h"

namespace weir {

/// Never finished: it is open until the Runtime stops it.
class RendezvousMachine final : public StateMachine {
public:
    explicit RendezvousMachine(std::unique_ptr<boot::OpenRendezvous> rendezvous)
        : rendezvous_(std::move(rendezvous)) {}

    size_t poll() override { return rendezvous_->poll(); }

    [[nodiscard]] int arm() override { return rendezvous_->arm(); }

    [[nodiscard]] bool finished() const override { return false; }

    [[nodiscard]] std::string name() const override { return "rendezvous"; }

private:
    std::unique_ptr<boot::OpenRendezvous> rendezvous_;
};

}  // namespace weir

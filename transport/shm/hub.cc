// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/hub.h"

#include <utility>

namespace weir::transport::shm {

bool Mailbox::offer(std::shared_ptr<DirectLink> link) {
    {
        const std::lock_guard lock(mutex_);
        if (closed_) return false;
        offered_.push_back(std::move(link));
    }
    bell_->ring();
    return true;
}

std::vector<std::shared_ptr<DirectLink>> Mailbox::take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(offered_, {});
}

std::vector<std::shared_ptr<DirectLink>> Mailbox::close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    return std::exchange(offered_, {});
}

void Hub::add(const std::string& name, std::shared_ptr<Mailbox> mailbox) {
    const std::lock_guard lock(mutex_);
    mailboxes_[name] = std::move(mailbox);
}

void Hub::remove(const std::string& name) {
    const std::lock_guard lock(mutex_);
    mailboxes_.erase(name);
}

std::shared_ptr<Mailbox> Hub::find(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = mailboxes_.find(name);
    return found == mailboxes_.end() ? nullptr : found->second;
}

}  // namespace weir::transport::shm

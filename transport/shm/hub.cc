// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/hub.h"

#include <utility>

namespace weir::transport::shm {

bool LinkOffers::offer(std::shared_ptr<DirectLink> link) {
    {
        const std::lock_guard lock(mutex_);
        if (closed_) return false;
        offered_.push_back(std::move(link));
    }
    bell_->ring();
    return true;
}

std::vector<std::shared_ptr<DirectLink>> LinkOffers::take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(offered_, {});
}

std::vector<std::shared_ptr<DirectLink>> LinkOffers::close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    return std::exchange(offered_, {});
}

void Hub::add(const std::string& name, std::shared_ptr<LinkOffers> offers) {
    const std::lock_guard lock(mutex_);
    endpoints_[name] = std::move(offers);
}

void Hub::remove(const std::string& name) {
    const std::lock_guard lock(mutex_);
    endpoints_.erase(name);
}

std::shared_ptr<LinkOffers> Hub::find(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = endpoints_.find(name);
    return found == endpoints_.end() ? nullptr : found->second;
}

}  // namespace weir::transport::shm

// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/identity.h"

#include <array>
#include <cstring>
#include <span>

#include <fmt/core.h>

#include "lib/bootstrap/secret.h"

namespace weir {
namespace {

constexpr std::string_view kManagerKey = "manager";
constexpr std::string_view kSecretKey = "secret";
constexpr std::string_view kFingerprintKey = "fingerprint";

std::string as_text(const std::array<std::byte, 32>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Equal on two ranks if their secrets are equal; reveals nothing else about the secret.
std::string fingerprint(const transport::Secret& secret) {
    constexpr std::string_view kText = "weir fingerprint of the job's secret";
    return as_text(transport::make_proof(secret, transport::Side::kConnecting, {}, {},
                                         std::as_bytes(std::span(kText))));
}

Status put_identity(Bootstrap& bootstrap, const JobIdentity& identity, bool from_file) {
    WEIR_TRY(bootstrap.put(kManagerKey, identity.manager_address));
    return from_file ? bootstrap.put(kFingerprintKey, fingerprint(identity.secret))
                     : bootstrap.put(kSecretKey, as_text(identity.secret));
}

/// Takes rank 0's secret, or compares it with ours.
Status get_secret(Bootstrap& bootstrap, JobIdentity& identity, const std::string& secret_file) {
    const auto theirs = bootstrap.get(0, secret_file.empty() ? kSecretKey : kFingerprintKey);
    if (!theirs && theirs.code() == Errc::kNotFound) {
        return Error(
            Errc::kRefused,
            fmt::format("rank {} has {} WEIR_SECRET_FILE, rank 0 has {}: give the same to all "
                        "ranks",
                        identity.rank, secret_file.empty() ? "no" : "a",
                        secret_file.empty() ? "one" : "none"));
    }
    WEIR_TRY(theirs);
    if (secret_file.empty()) {
        if (theirs->size() != identity.secret.size()) {
            return Error(Errc::kProtocol,
                         "rank 0 handed out a secret of the wrong length; use the same version of "
                         "Weir on all ranks");
        }
        std::memcpy(identity.secret.data(), theirs->data(), theirs->size());
    } else if (*theirs != fingerprint(identity.secret)) {
        return Error(
            Errc::kRefused,
            fmt::format("WEIR_SECRET_FILE={} of rank {}: not the secret that rank 0 has; give all "
                        "ranks the same",
                        secret_file, identity.rank));
    }
    return {};
}

}  // namespace

Result<JobIdentity> exchange_identity(Bootstrap& bootstrap, std::string manager_address,
                                      uint64_t deadline_ns, const std::string& secret_file) {
    JobIdentity identity{.rank = bootstrap.rank()};
    if (!secret_file.empty()) {
        WEIR_ASSIGN(identity.secret, read_secret_file(secret_file));
    }
    if (identity.rank == 0) {
        identity.manager_address = std::move(manager_address);
        if (secret_file.empty()) identity.secret = make_secret();
        WEIR_TRY(put_identity(bootstrap, identity, !secret_file.empty()));
    }
    WEIR_TRY(bootstrap.exchange(deadline_ns));
    if (identity.rank != 0) {
        WEIR_ASSIGN(identity.manager_address, bootstrap.get(0, kManagerKey));
        WEIR_TRY(get_secret(bootstrap, identity, secret_file));
    }
    return identity;
}

}  // namespace weir

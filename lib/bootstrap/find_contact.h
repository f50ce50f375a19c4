// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How a process that joins a running job, or a command for it, finds the job: at its rendezvous,
/// or by a contact file.

#include <optional>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/config.h"
#include "lib/base/host_port.h"
#include "lib/bootstrap/contact.h"

namespace weir {

/// `where`: HOST:PORT of the rendezvous, or the path of a contact file. A file whose name looks
/// like HOST:PORT needs a folder before its name, as in ./HOST:PORT.
///
/// Source:  WEIR_SECRET_FILE and WEIR_JOIN_TIMEOUT_S of `config`, for a rendezvous
/// Errors:  those of read_contact_file() and read_secret_file(); kInvalidArgument naming the part of
///          the address that is wrong; kUnavailable if nobody listens
///          there; kRefused (another secret, the job has not begun), kProtocol (another program
///          or version), kDeadline; the text says what to do
[[nodiscard]] Result<Contact> find_contact(const std::string& where, const Config& config,
                                           const Clock& clock);

namespace boot {

/// Asks the rendezvous of a running job.
[[nodiscard]] Result<Contact> ask_for_contact(const HostPort& at,
                                              const std::optional<transport::Secret>& secret,
                                              const Clock& clock, uint64_t deadline_ns);

}  // namespace boot
}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// libraft's header, which is one of C and does not say so. Only builds that found the library have it, and
/// only the files raft_* of this folder may include this.

extern "C" {
#include <raft.h>
}

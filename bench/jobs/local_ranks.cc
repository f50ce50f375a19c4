// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/local_ranks.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/jobs/child_process.h"
#include "lib/base/descriptor.h"
#include "lib/bootstrap/secret.h"
#include "transport/net/reserved_port.h"

namespace weir::bench {
namespace {

/// The exit code of `weir` for wrong flags.
constexpr int kExitOfWrongFlags = 2;

/// A secret that the ranks share, in a file without a name that they inherit as a descriptor: no
/// other process of this host can join them, and nothing is left of it.
class HeldSecret {
public:
    /// Names the file in WEIR_SECRET_FILE, unless the user has set that already.
    Status share() {
        const char* const given = std::getenv(kVariable);
        if (given != nullptr && *given != 0) return {};
        file_ = Descriptor(memfd_create("weir-secret", 0));  // no MFD_CLOEXEC: ranks inherit it
        const transport::Secret secret = make_secret();
        const std::string path = fmt::format("/proc/self/fd/{}", file_.get());
        if (!file_ || fchmod(file_.get(), 0600) != 0 ||
            write(file_.get(), secret.data(), secret.size()) !=
                static_cast<ssize_t>(secret.size()) ||
            setenv(kVariable, path.c_str(), 1) != 0) {
            return Error(Errc::kIo, "bench --local: cannot make a secret for its ranks", errno);
        }
        return {};
    }

private:
    static constexpr const char* kVariable = "WEIR_SECRET_FILE";
    Descriptor file_;
};

/// The started processes. The destructor kills those that still run.
class Ranks {
public:
    Ranks() = default;
    Ranks(const Ranks&) = delete;
    Ranks& operator=(const Ranks&) = delete;

    ~Ranks() {
        for (const pid_t pid : pids_) {
            if (pid <= 0) continue;
            kill(pid, SIGKILL);
            waitpid(pid, nullptr, 0);
        }
    }

    Status start(std::vector<std::string> arguments) {
        WEIR_ASSIGN(const pid_t pid, start_this_program(std::move(arguments)));
        pids_.push_back(pid);
        return {};
    }

    Status wait() {
        for (size_t left = pids_.size(); left > 0; --left) {
            int status = 0;
            pid_t pid = -1;
            do {
                pid = waitpid(-1, &status, 0);
            } while (pid < 0 && errno == EINTR);
            if (pid < 0) return Error(Errc::kIo, "bench --local: cannot wait for a process", errno);
            for (size_t rank = 0; rank < pids_.size(); ++rank) {
                if (pids_[rank] != pid) continue;
                pids_[rank] = 0;
                if (status == 0) continue;
                const bool is_flag = WIFEXITED(status) && WEXITSTATUS(status) == kExitOfWrongFlags;
                return Error(is_flag ? Errc::kInvalidArgument : Errc::kIo,
                             fmt::format("bench --local: rank {} {}", rank, end_text(status)));
            }
        }
        return {};
    }

private:
    std::vector<pid_t> pids_;
};

}  // namespace

Result<ScratchFolder> ScratchFolder::make() {
    std::error_code failed;
    std::string path = std::filesystem::temp_directory_path(failed) / "weir-bench-XXXXXX";
    if (failed || mkdtemp(path.data()) == nullptr)
        return Error(Errc::kIo, fmt::format("bench --local: cannot make the folder {}", path),
                     errno);
    return ScratchFolder(std::move(path));
}

ScratchFolder::~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Status run_local_ranks(const std::vector<std::string>& arguments, size_t count) {
    // Destroyed after the ranks: the first one listens on it.
    WEIR_ASSIGN(const transport::ReservedPort port, transport::ReservedPort::make());
    const std::string at = fmt::format("127.0.0.1:{}", port.number());
    HeldSecret secret;
    WEIR_TRY(secret.share());
    // All of them are here. What is not used is not polled, either; unless the user wants it.
    (void)setenv("WEIR_TRANSPORT", "shm", 0);
    Ranks ranks;
    for (size_t rank = 0; rank < count; ++rank) {
        std::vector<std::string> all = arguments;
        for (const std::string& more :
             {std::string("--rendezvous"), at, std::string("--rank"), fmt::format("{}", rank),
              std::string("--size"), fmt::format("{}", count)}) {
            all.push_back(more);
        }
        WEIR_TRY(ranks.start(std::move(all)));
    }
    return ranks.wait();
}

}  // namespace weir::bench

// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/run/rank_process.h"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace weir::tools {
namespace {

constexpr size_t kReadBytes = 64 << 10;
constexpr size_t kLineBytesMax = 64 << 10;  // a longer one is divided

struct Pipe {
    Descriptor from;
    Descriptor to;
};

Result<Pipe> make_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        return Error(Errc::kIo,
                     "cannot make a pipe for the output of a rank; allow this process more open "
                     "files (ulimit -n), or start fewer ranks",
                     errno);
    return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> list;
    list.reserve(texts.size() + 1);
    for (const std::string& text : texts)
        list.push_back(const_cast<char*>(text.c_str()));  // execvpe() changes none
    list.push_back(nullptr);
    return list;
}

/// What the process of a rank is to begin with. Made before fork(), behind which nothing is allocated.
struct Beginning {
    std::vector<char*> command;
    std::vector<char*> environment;
    sigset_t signals;
    int input = -1;  ///< -1: that of this process
    int output = -1;
    int errors = -1;
    int failed = -1;  ///< gets errno, if the program cannot be started
    pid_t parent = 0;
};

[[noreturn]] void become(const Beginning& is) {
    (void)::setpgid(0, 0);
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != is.parent) ::_exit(1);  // it has ended before that
    (void)std::signal(SIGPIPE, SIG_DFL);
    (void)std::signal(SIGXFSZ, SIG_DFL);
    (void)::sigprocmask(SIG_SETMASK, &is.signals, nullptr);
    if (is.input >= 0) (void)::dup2(is.input, STDIN_FILENO);
    if (::dup2(is.output, STDOUT_FILENO) >= 0 && ::dup2(is.errors, STDERR_FILENO) >= 0)
        (void)::execvpe(is.command.front(), is.command.data(), is.environment.data());
    const int error = errno;
    (void)!::write(is.failed, &error, sizeof(error));
    ::_exit(127);
}

Error cannot_start(const std::string& program, int error) {
    const std::string advice = error == ENOENT
                                   ? "name a program that is in PATH, or by its path (./NAME)"
                                   : "name a program that this user may run";
    return {error == ENOENT ? Errc::kNotFound : Errc::kIo,
            fmt::format("{}: cannot be started; {}", program, advice), error};
}

}  // namespace

std::string OutputPipe::take(const std::string& prefix) {
    std::array<char, kReadBytes> bytes{};
    const ssize_t got = ::read(from.get(), bytes.data(), bytes.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
    const bool is_over = got <= 0;
    if (is_over) from.reset();
    rest.append(bytes.data(), is_over ? 0 : static_cast<size_t>(got));
    std::string lines;
    size_t begin = 0;
    for (size_t end = 0; (end = rest.find('\n', begin)) != std::string::npos; begin = end + 1)
        lines.append(prefix).append(rest, begin, end + 1 - begin);
    rest.erase(0, begin);
    if (!rest.empty() && (is_over || rest.size() > kLineBytesMax)) {
        lines.append(prefix).append(rest).append("\n");
        rest.clear();
    }
    return lines;
}

Result<RankProcess> start_rank(const std::vector<std::string>& command,
                               const std::vector<std::string>& environment, bool has_stdin,
                               const sigset_t& signals) {
    WEIR_ASSIGN(Pipe output, make_pipe());
    WEIR_ASSIGN(Pipe errors, make_pipe());
    WEIR_ASSIGN(Pipe failed, make_pipe());
    const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const Beginning beginning{.command = pointers(command),
                              .environment = pointers(environment),
                              .signals = signals,
                              .input = has_stdin ? -1 : nothing.get(),
                              .output = output.to.get(),
                              .errors = errors.to.get(),
                              .failed = failed.to.get(),
                              .parent = ::getpid()};
    const pid_t pid = ::fork();
    if (pid < 0)
        return Error(Errc::kIo,
                     "cannot start another process; allow this user more (ulimit -u), or start "
                     "fewer ranks",
                     errno);
    if (pid == 0) become(beginning);
    (void)::setpgid(pid, pid);  // as the process does: whichever comes first
    RankProcess rank;
    rank.pid = pid;
    for (Pipe* const pipe : {&output, &errors})
        (void)::fcntl(pipe->from.get(), F_SETFL, O_NONBLOCK);
    rank.outputs[0] = {std::move(output.from), STDOUT_FILENO, {}};
    rank.outputs[1] = {std::move(errors.from), STDERR_FILENO, {}};
    failed.to.reset();
    int error = 0;
    ssize_t got = 0;
    do {
        got = ::read(failed.from.get(), &error, sizeof(error));
    } while (got < 0 && errno == EINTR);
    if (got == static_cast<ssize_t>(sizeof(error))) return cannot_start(command.front(), error);
    return rank;
}

}  // namespace weir::tools

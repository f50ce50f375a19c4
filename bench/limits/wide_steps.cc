// SPDX-License-Identifier: Apache-2.0
#include "bench/limits/wide_steps.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "lib/base/kernel.h"

namespace weir::limits {
namespace {

using Kind = WideStep::Kind;

/// Each has the values of a row, and planes of state behind them.
struct Row {
    float* __restrict value;
    float* __restrict first;
    float* __restrict second;
    const float* __restrict pushed;
};

/// Calls use(row) for each row. `use` becomes part of it, and so uses the same vectors.
template <class Use>
WEIR_KERNEL [[gnu::flatten]] void each_row(float* const* rows, const float* pushed,
                                           size_t row_count, size_t width, size_t pushed_floats,
                                           Use use) noexcept {
    for (size_t i = 0; i < row_count; ++i, pushed += pushed_floats)
        use(Row{rows[i], rows[i] + width, rows[i] + 2 * width, pushed}, width);
}

struct Assign {
    void operator()(const Row& row, size_t width) const noexcept {
        float* __restrict w = row.value;
        const float* __restrict g = row.pushed;
        for (size_t i = 0; i < width; ++i)
            w[i] = g[i];
    }
};

struct Sgd {
    float rate;
    float decay;

    void operator()(const Row& row, size_t width) const noexcept {
        float* __restrict w = row.value;
        const float* __restrict g = row.pushed;
        for (size_t i = 0; i < width; ++i)
            w[i] -= rate * (g[i] + decay * w[i]);
    }
};

template <bool kIsNesterov>
struct Momentum {
    float rate;
    float momentum;
    float decay;

    void operator()(const Row& row, size_t width) const noexcept {
        float* __restrict w = row.value;
        float* __restrict velocity = row.first;
        const float* __restrict g = row.pushed;
        for (size_t i = 0; i < width; ++i) {
            const float gradient = g[i] + decay * w[i];
            velocity[i] = momentum * velocity[i] + gradient;
            w[i] -= rate * (kIsNesterov ? gradient + momentum * velocity[i] : velocity[i]);
        }
    }
};

struct Adagrad {
    float rate;
    float epsilon;

    void operator()(const Row& row, size_t width) const noexcept {
        float* __restrict w = row.value;
        float* __restrict squares = row.first;
        const float* __restrict g = row.pushed;
        for (size_t i = 0; i < width; ++i) {
            squares[i] += g[i] * g[i];
            w[i] -= rate * g[i] / (std::sqrt(squares[i]) + epsilon);
        }
    }
};

struct RowAdagrad {
    float rate;
    float epsilon;

    void operator()(const Row& row, size_t width) const noexcept {
        constexpr size_t kLanes = 16;  // a sum in one lane would not be vectorised
        float* __restrict w = row.value;
        const float* __restrict g = row.pushed;
        float lanes[kLanes] = {};
        size_t i = 0;
        for (; i + kLanes <= width; i += kLanes) {
            for (size_t lane = 0; lane < kLanes; ++lane)
                lanes[lane] += g[i + lane] * g[i + lane];
        }
        float squares = 0;
        for (; i < width; ++i)
            squares += g[i] * g[i];
        for (const float lane : lanes)
            squares += lane;
        row.first[0] += squares / static_cast<float>(width);
        const float step = rate / (std::sqrt(row.first[0]) + epsilon);
        for (size_t k = 0; k < width; ++k)
            w[k] -= step * g[k];
    }
};

struct RmsProp {
    float rate;
    float decay;
    float epsilon;

    void operator()(const Row& row, size_t width) const noexcept {
        float* __restrict w = row.value;
        float* __restrict squares = row.first;
        const float* __restrict g = row.pushed;
        for (size_t i = 0; i < width; ++i) {
            squares[i] = decay * squares[i] + (1 - decay) * g[i] * g[i];
            w[i] -= rate * g[i] / (std::sqrt(squares[i]) + epsilon);
        }
    }
};

template <bool kIsDecoupled>
struct Adam {
    WideStep step;
    const float* scales;
    const float* roots;
    size_t last;  // step of the tables

    void operator()(const Row& row, size_t width) const noexcept {
        float* __restrict w = row.value;
        float* __restrict first = row.first;
        float* __restrict second = row.second;
        const float* __restrict g = row.pushed;
        uint32_t t = 0;
        std::memcpy(&t, row.value + 3 * width, sizeof(t));
        t += static_cast<uint32_t>(t < last);
        std::memcpy(row.value + 3 * width, &t, sizeof(t));
        const float scale = scales[t];
        const float root = roots[t];
        const float b1 = step.momentum;
        const float b2 = step.squares;
        const float decay = step.weight_decay;
        const float keep = 1 - step.rate * decay;
        for (size_t i = 0; i < width; ++i) {
            const float gradient = kIsDecoupled ? g[i] : g[i] + decay * w[i];
            first[i] = b1 * first[i] + (1 - b1) * gradient;
            second[i] = b2 * second[i] + (1 - b2) * gradient * gradient;
            const float start = kIsDecoupled ? keep * w[i] : w[i];
            w[i] = start - scale * first[i] / (std::sqrt(second[i]) * root + step.epsilon);
        }
    }
};

struct Lion {
    WideStep step;

    void operator()(const Row& row, size_t width) const noexcept {
        float* __restrict w = row.value;
        float* __restrict mean = row.first;
        const float* __restrict g = row.pushed;
        const float b1 = step.momentum;
        const float b2 = step.squares;
        for (size_t i = 0; i < width; ++i) {
            const float mixed = b1 * mean[i] + (1 - b1) * g[i];
            const float sign = static_cast<float>(mixed > 0) - static_cast<float>(mixed < 0);
            w[i] -= step.rate * (sign + step.weight_decay * w[i]);
            mean[i] = b2 * mean[i] + (1 - b2) * g[i];
        }
    }
};

struct Ftrl {
    float per_rate;
    float l1;

    void operator()(const Row& row, size_t width) const noexcept {
        float* __restrict w = row.value;
        float* __restrict z = row.first;
        float* __restrict n = row.second;
        const float* __restrict g = row.pushed;
        for (size_t i = 0; i < width; ++i) {
            const float sum = n[i] + g[i] * g[i];
            const float root = std::sqrt(sum);
            const float next = z[i] + g[i] - (root - std::sqrt(n[i])) * per_rate * w[i];
            const float beyond = std::abs(next) - l1;
            z[i] = next;
            n[i] = sum;
            w[i] = beyond > 0 ? -std::copysign(beyond, next) / ((1 + root) * per_rate) : 0.0F;
        }
    }
};

struct ProxL1 {
    float l1;

    void operator()(const Row& row, size_t width) const noexcept {
        float* __restrict value = row.value;
        float* __restrict trust = row.first;
        const float* __restrict pushed = row.pushed;
        for (size_t i = 0; i < width; ++i) {
            const float w = value[i];
            const float gradient = pushed[2 * i];
            const float curvature = pushed[2 * i + 1];
            const float u = std::max(curvature, std::numeric_limits<float>::min());
            const float right = gradient + l1;
            const float left = gradient - l1;
            const float newton = -(right <= u * w ? right : left) / u;
            const float wanted = right <= u * w || left >= u * w ? newton : -w;
            const float step = std::min(std::max(wanted, -trust[i]), trust[i]);
            const float next = w + step;
            const bool is_move = curvature < 0;
            const float least = std::max(trust[i] / 2, 1e-9F);
            trust[i] = is_move ? trust[i] : std::max(4 * std::abs(next - w), least);
            value[i] = is_move ? w - gradient / curvature : next;
        }
    }
};

struct CountMin {
    size_t depth;

    void operator()(const Row& row, size_t width) const noexcept {
        constexpr float kNone = -std::numeric_limits<float>::infinity();
        float* __restrict w = row.value;
        const float* __restrict g = row.pushed;
        const size_t columns = width / depth;
        float bound = std::numeric_limits<float>::infinity();
        for (size_t line = 0; line < depth; ++line) {
            float greatest = kNone;
            for (size_t i = line * columns; i < (line + 1) * columns; ++i) {
                const float reached = g[i] > 0 ? w[i] + g[i] : kNone;
                greatest = reached > greatest ? reached : greatest;
            }
            bound = greatest != kNone && greatest < bound ? greatest : bound;
        }
        for (size_t i = 0; i < width; ++i) {
            const float next = std::min(w[i] + g[i], bound);
            w[i] = g[i] > 0 && next > w[i] ? next : w[i];
        }
    }
};

}  // namespace

size_t WideStep::row_floats(size_t width) const noexcept {
    switch (kind) {
        case Kind::kAssign:
        case Kind::kSgd:
        case Kind::kCountMin: return width;
        case Kind::kRowAdagrad: return width + 1;
        case Kind::kAdam:
        case Kind::kAdamW: return 3 * width + 1;
        case Kind::kFtrl: return 3 * width;
        default: return 2 * width;
    }
}

WideSteps::WideSteps(const WideStep& step, size_t width) : step_(step), width_(width) {
    constexpr int kSteps = 1 << 16;  // behind them, nothing is left to be corrected
    const bool is_adam = step.kind == Kind::kAdam || step.kind == Kind::kAdamW;
    for (int t = 0; is_adam && t < kSteps; ++t) {
        scales_.push_back(static_cast<float>(step.rate / (1 - std::pow(step.momentum, t))));
        roots_.push_back(static_cast<float>(1 / std::sqrt(1 - std::pow(step.squares, t))));
    }
}

void WideSteps::begin(float* row) const noexcept {
    if (step_.kind == Kind::kProxL1) std::fill_n(row + width_, width_, step_.first_trust);
}

void WideSteps::take(float* const* rows, const float* pushed, size_t row_count) const noexcept {
    const WideStep& s = step_;
    const auto each = [&](auto use) {
        each_row(rows, pushed, row_count, width_, s.pushed_floats(width_), use);
    };
    switch (s.kind) {
        case Kind::kAssign: return each(Assign{});
        case Kind::kSgd: return each(Sgd{s.rate, s.weight_decay});
        case Kind::kMomentum: return each(Momentum<false>{s.rate, s.momentum, s.weight_decay});
        case Kind::kNesterov: return each(Momentum<true>{s.rate, s.momentum, s.weight_decay});
        case Kind::kAdagrad: return each(Adagrad{s.rate, s.epsilon});
        case Kind::kRowAdagrad: return each(RowAdagrad{s.rate, s.epsilon});
        case Kind::kRmsProp: return each(RmsProp{s.rate, s.squares, s.epsilon});
        case Kind::kAdam:
            return each(Adam<false>{s, scales_.data(), roots_.data(), scales_.size() - 1});
        case Kind::kAdamW:
            return each(Adam<true>{s, scales_.data(), roots_.data(), scales_.size() - 1});
        case Kind::kLion: return each(Lion{s});
        case Kind::kFtrl: return each(Ftrl{1 / s.rate, s.l1});
        case Kind::kProxL1: return each(ProxL1{s.l1});
        case Kind::kCountMin: return each(CountMin{s.depth});
    }
}

}  // namespace weir::limits

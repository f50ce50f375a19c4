// SPDX-License-Identifier: Apache-2.0
#include "lib/linalg/l1_quadratic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "lib/base/kernel.h"
#include "lib/linalg/gram.h"

namespace weir::linalg {

namespace {

using Numbers = std::vector<double>;

constexpr int kIterationCountMax = 80;
constexpr double kRidge = 1e-14;  // for equal columns; the diagonal of H is 1

/// The number of rows that one pass subtracts from each later row.
constexpr uint64_t kPanel = 8;

/// row -= the sum of factors[p] * (the p-th row of the panel)
WEIR_KERNEL void subtract_panel(const double* factors, const double* panel, uint64_t stride,
                                uint64_t count, double* row) {
    for (uint64_t i = 0; i < count; ++i) {
        double sum = 0;
        for (uint64_t p = 0; p < kPanel; ++p)
            sum += factors[p] * panel[p * stride + i];
        row[i] -= sum;
    }
}

WEIR_KERNEL void subtract(double u, const double* a, uint64_t count, double* row) {
    for (uint64_t i = 0; i < count; ++i)
        row[i] -= u * a[i];
}

/// A symmetric matrix, given by its upper triangle, and factored in place as U'U.
class Cholesky {
public:
    explicit Cholesky(uint64_t count) : count_(count), u_(count * count) {}

    double* row(uint64_t k) { return &u_[k * count_]; }

    void factor() {
        for (uint64_t begin = 0; begin < count_; begin += kPanel) {
            const uint64_t end = std::min(begin + kPanel, count_);
            for (uint64_t k = begin; k < end; ++k) {
                scale(k);
                for (uint64_t i = k + 1; i < end; ++i)
                    subtract(row(k)[i], row(k) + i, count_ - i, row(i) + i);
            }
            for (uint64_t i = end; i < count_; ++i) {
                std::array<double, kPanel> factors;
                for (uint64_t p = 0; p < kPanel; ++p)
                    factors[p] = row(begin + p)[i];
                subtract_panel(factors.data(), row(begin) + i, count_, count_ - i, row(i) + i);
            }
        }
    }

    void solve(Numbers& x) {
        for (uint64_t k = 0; k < count_; ++k) {
            x[k] /= row(k)[k];
            subtract(x[k], row(k) + k + 1, count_ - k - 1, x.data() + k + 1);
        }
        for (uint64_t k = count_; k-- > 0;) {
            for (uint64_t i = k + 1; i < count_; ++i)
                x[k] -= row(k)[i] * x[i];
            x[k] /= row(k)[k];
        }
    }

private:
    void scale(uint64_t k) {
        const double pivot = row(k)[k];
        // A pivot lost to rounding: the huge root keeps this variable where it is.
        const double root = pivot > 1e-300 ? std::sqrt(pivot) : 1e150;
        row(k)[k] = root;
        for (uint64_t i = k + 1; i < count_; ++i)
            row(k)[i] /= root;
    }

    uint64_t count_;
    Numbers u_;
};

/// The problem in variables scaled so that H has a diagonal of 1: minimise
///     gradient.d + d'Hd / 2 + sum penalty_j (p_j + q_j)  with p - q = weights + d and p, q >= 0.
/// s and t are the multipliers of p >= 0 and q >= 0.
class InteriorPoint {
public:
    explicit InteriorPoint(const L1Quadratic& model)
        : count_(model.gradient.size()), cholesky_(count_), h_(count_ * count_) {
        for (Numbers* v : {&scale_, &penalty_, &g_, &w_, &d_, &hd_, &p_, &q_, &s_, &t_})
            v->assign(count_, 0);
        for (uint64_t j = 0; j < count_; ++j) {
            const double bend = model.curvature[triangle_row(j, count_)];
            if (!(bend > 0)) continue;  // no example has the feature: its weight stays
            scale_[j] = 1 / std::sqrt(bend);
            g_[j] = model.gradient[j] * scale_[j];
            w_[j] = model.weights[j] / scale_[j];
        }
        for (uint64_t a = 0; a < count_; ++a) {
            const double* const from = &model.curvature[triangle_row(a, count_)];
            for (uint64_t b = a + 1; b < count_; ++b) {
                h_[a * count_ + b] = h_[b * count_ + a] = from[b - a] * scale_[a] * scale_[b];
            }
            h_[a * count_ + a] = 1;
        }
        double steepest = 1e-100;
        for (const double g : g_)
            steepest = std::max(steepest, std::abs(g));
        for (uint64_t j = 0; j < count_; ++j) {
            // Without a penalty p and q could both grow without bound.
            penalty_[j] = std::max(model.l1 * scale_[j], 1e-10 * steepest);
            p_[j] = std::max(w_[j], 0.0) + steepest;
            q_[j] = std::max(-w_[j], 0.0) + steepest;
            s_[j] = std::max(penalty_[j] + g_[j], 0.0) + steepest;
            t_[j] = std::max(penalty_[j] - g_[j], 0.0) + steepest;
        }
    }

    /// Whether the duality gap and the residual of the constraints are within the tolerance.
    [[nodiscard]] bool done(double tolerance) const {
        double gap = 0;
        double residual = 0;
        for (uint64_t j = 0; j < count_; ++j) {
            gap += p_[j] * s_[j] + q_[j] * t_[j];
            residual += p_[j] * std::abs(residual_s(j)) + q_[j] * std::abs(residual_t(j));
        }
        return gap + residual <= tolerance;
    }

    void iterate() {
        for (uint64_t a = 0; a < count_; ++a) {
            std::copy_n(&h_[a * count_ + a], count_ - a, cholesky_.row(a) + a);
            cholesky_.row(a)[a] += 1 / spread(a) + kRidge;
        }
        cholesky_.factor();
        const Numbers none(count_, 0);
        const Step guess = newton(0, none, none);
        const double before = complementarity({none, none, none, none, none, none}, 0);
        const double after = complementarity(guess, std::min(1.0, longest(guess)));
        const double centre =
            std::pow(after / before, 3) * before / static_cast<double>(2 * count_);
        Numbers bent_s(count_);
        Numbers bent_t(count_);
        for (uint64_t j = 0; j < count_; ++j) {
            bent_s[j] = guess.p[j] * guess.s[j];
            bent_t[j] = guess.q[j] * guess.t[j];
        }
        const Step step = newton(centre, bent_s, bent_t);
        const double length = std::min(1.0, 0.995 * longest(step));
        for (uint64_t j = 0; j < count_; ++j) {
            d_[j] += length * step.d[j];
            hd_[j] += length * step.hd[j];
            p_[j] += length * step.p[j];
            q_[j] += length * step.q[j];
            s_[j] += length * step.s[j];
            t_[j] += length * step.t[j];
        }
    }

    [[nodiscard]] Numbers result(const L1Quadratic& model) const {
        Numbers d(count_);
        for (uint64_t j = 0; j < count_; ++j) {
            const bool zero = p_[j] < s_[j] && q_[j] < t_[j];
            d[j] = scale_[j] == 0 ? 0 : zero ? -model.weights[j] : d_[j] * scale_[j];
        }
        return d;
    }

private:
    struct Step {
        Numbers d, hd, p, q, s, t;
    };

    [[nodiscard]] double residual_s(uint64_t j) const {
        return penalty_[j] + (g_[j] + hd_[j]) - s_[j];
    }

    [[nodiscard]] double residual_t(uint64_t j) const {
        return penalty_[j] - (g_[j] + hd_[j]) - t_[j];
    }

    [[nodiscard]] double spread(uint64_t j) const { return p_[j] / s_[j] + q_[j] / t_[j]; }

    /// The Newton step that makes every p s and q t equal to `centre`, less the second-order
    /// terms `bent`.
    [[nodiscard]] Step newton(double centre, const Numbers& bent_s, const Numbers& bent_t) {
        Step step{Numbers(count_), Numbers(count_), Numbers(count_),
                  Numbers(count_), Numbers(count_), Numbers(count_)};
        for (uint64_t j = 0; j < count_; ++j) {
            step.p[j] = (centre - bent_s[j] - p_[j] * s_[j] - p_[j] * residual_s(j)) / s_[j];
            step.q[j] = (centre - bent_t[j] - q_[j] * t_[j] - q_[j] * residual_t(j)) / t_[j];
            step.d[j] = (step.p[j] - step.q[j]) / spread(j);
        }
        cholesky_.solve(step.d);
        for (uint64_t j = 0; j < count_; ++j)
            subtract(-step.d[j], &h_[j * count_], count_, step.hd.data());
        for (uint64_t j = 0; j < count_; ++j) {
            step.s[j] = step.hd[j] + residual_s(j);
            step.t[j] = -step.hd[j] + residual_t(j);
            // Of p and q, the one with the smaller ratio comes from its own equation; the other
            // follows from p - q = weights + d, because its own equation is mostly rounding.
            if (p_[j] / s_[j] < q_[j] / t_[j]) {
                step.p[j] -= p_[j] / s_[j] * step.hd[j];
                step.q[j] = step.p[j] - step.d[j];
            } else {
                step.q[j] += q_[j] / t_[j] * step.hd[j];
                step.p[j] = step.q[j] + step.d[j];
            }
        }
        return step;
    }

    /// The greatest length of the step after which no variable is negative.
    [[nodiscard]] double longest(const Step& step) const {
        double length = 1 / 0.995;
        const auto cut = [&](const Numbers& now, const Numbers& change) {
            for (uint64_t j = 0; j < count_; ++j) {
                if (change[j] < 0) length = std::min(length, -now[j] / change[j]);
            }
        };
        cut(p_, step.p);
        cut(q_, step.q);
        cut(s_, step.s);
        cut(t_, step.t);
        return length;
    }

    [[nodiscard]] double complementarity(const Step& step, double length) const {
        double sum = 0;
        for (uint64_t j = 0; j < count_; ++j) {
            sum += (p_[j] + length * step.p[j]) * (s_[j] + length * step.s[j]) +
                   (q_[j] + length * step.q[j]) * (t_[j] + length * step.t[j]);
        }
        return sum;
    }

    uint64_t count_;
    Cholesky cholesky_;
    Numbers h_;  // both triangles
    Numbers scale_, penalty_, g_, w_, d_, hd_, p_, q_, s_, t_;
};

}  // namespace

std::vector<double> minimise(const L1Quadratic& model, double tolerance) {
    InteriorPoint point(model);
    for (int i = 0; i < kIterationCountMax && !point.done(tolerance); ++i)
        point.iterate();
    return point.result(model);
}

}  // namespace weir::linalg

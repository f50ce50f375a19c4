// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For programs with update rules of their own: what a rule is (Rule structs, UpdateRule), and the
/// RuleRegistry of JobOptions::add_rules.

#include "lib/store/rules/rule.h"           // IWYU pragma: export
#include "lib/store/rules/rule_registry.h"  // IWYU pragma: export

// The trials of a sweep before they run: a scenario for each point and seed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "federated/scenario/scenario.h"
#include "simulations/sweeps/outcome.h"
#include "simulations/sweeps/points.h"
#include "simulations/sweeps/trials.h"

namespace rivulet {

// The scenario of one point under one seed.
using ScenarioOfTrial = std::function<StatusOr<Scenario>(const SweepPoint& point, uint64_t seed)>;

struct SweepPlan {
  ScenarioOfTrial scenario;
  std::vector<SweepPoint> points;
  uint64_t first_seed = 1;
  int64_t seeds = 1;  // consecutive
  TrialOptions trials;
};

struct PlannedTrial {
  size_t point;
  Scenario scenario;
  std::string name;  // "2 of 6: client.epochs=5, seed 2"
};

// Every point under every seed, the seeds of a point together: runs that differ in their seed alone share a plan. All
// scenarios are read before the first run, so a mistake in one is a usage error.
StatusOr<std::vector<PlannedTrial>> PlanTrials(const SweepPlan& plan);

// The points without any run.
std::vector<SweptPoint> WithoutRuns(const std::vector<SweepPoint>& points);
// The points with the history's ended runs, finished or failed. Runs nothing and generates no data.
StatusOr<std::vector<SweptPoint>> GatherTrials(const SweepPlan& plan);
// Runs the trials that are not in the history: every point, under every seed.
using RunTrials = std::function<StatusOr<std::vector<SweptPoint>>(const SweepPlan& plan)>;

}  // namespace rivulet

// Threads search, report, stop and advance at once, for ThreadSanitizer: races GAME POLICY THREADS LEAVES ROUNDS.
// Prints the simulations of all rounds; exits with 1 if a report contradicts itself.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "analysis/analysis.h"
#include "games/connect_four.h"
#include "games/go/go.h"

using namespace shusaku;

static void require(bool holds, const char* what) {
  if (holds) return;
  std::printf("%s\n", what);
  std::exit(1);
}

template <GameRules G, class S>
struct Driven final : Analysis<G, S> {
  using Analysis<G, S>::Analysis;
  void set_position(const AnyPosition&) override {}
};

static SearchOptions options(const std::string& policy) {
  SearchOptions o;
  o.policy = policy, o.simulations = 1, o.leaves = 1, o.cache = 1 << 10;
  o.c_puct = 1.5f, o.c_puct_base = 19652, o.fpu_reduction = 0.2f, o.proven_results = true;
  o.move_choice = "lcb", o.lcb_stdevs = 5, o.lcb_least_share = 0.15f;
  if (policy == "puct") return o;
  o.proven_results = false, o.move_choice = "visits";
  o.c_alphago = 5, o.rollout_share = 0.5f, o.expand_after = 3, o.prior_power = 0.67f, o.virtual_loss = 3;
  o.resign_below = -1, o.asks_policy = true;
  return o;
}

template <GameRules G>
void work(const G& rules, AnyAnalysis& analysis, int thread, int leaves) {
  const Shape shape = rules.shape();
  std::vector<float> logits(size_t(leaves * rules.max_legal_actions())), values(static_cast<size_t>(leaves));
  for (;;) {
    const Leaves& l = analysis.select(thread, leaves, 0);
    if (l.count == 0) return;
    pseudo_random_evaluate(l.packed.data(), shape.packed_bytes(), l.uniform.data(), shape.uniform, l.offsets.data(),
                           l.actions.data(), l.count, logits.data(), values.data());
    analysis.expand_and_backup(thread, logits.data(), values.data(), 0);
  }
}

template <GameRules G>
void check(const AnalysisReport& r, const G& rules) {
  std::int64_t visits = 0;
  for (size_t i = 0; i < r.visits.size(); ++i) {
    visits += r.visits[i];
    require(r.variations[i][0] == r.actions[i] && int(r.variations[i].size()) <= rules.max_plies(), "a variation");
    require(r.values[i] >= -1 && r.values[i] <= 1, "a value");
  }
  require(visits == r.simulations, "the visits of the moves do not add up to those of the root");
}

template <class S, GameRules G>
void run(const G& rules, const std::string& policy, int threads, int leaves, int rounds) {
  Driven<G, S> analysis(rules, options(policy), threads, leaves, 64, 1);
  std::atomic<bool> is_over = false;
  std::atomic<std::int64_t> total = 0;
  std::thread watcher([&] {
    while (!is_over) check(analysis.report(), rules);
  });
  for (int round = 0; round < rounds; ++round) {
    AnalysisLimits limits;
    if (round % 3 == 1) limits.simulations = 500;
    if (round % 3 == 2) limits.seconds = 0.01;
    analysis.start(limits);
    std::vector<std::thread> workers;
    for (int thread = 0; thread < threads; ++thread)
      workers.emplace_back([&, thread] { work(rules, analysis, thread, leaves); });
    if (round % 3 == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      analysis.stop();
    }
    for (std::thread& worker : workers) worker.join();
    const AnalysisReport r = analysis.report();
    require(!analysis.is_running() && !r.ended.empty(), "it still runs");
    require(!analysis.has_virtual_loss(), "a path has left lost games behind");
    require(limits.simulations < 0 || r.simulations >= 500 || r.ended != "simulations", "too few simulations");
    total += r.simulations;
    if (round % 10 == 9)
      analysis.clear(), analysis.set_position_to(rules.start());
    else if (r.order.empty())
      analysis.set_position_to(rules.start());
    else
      analysis.advance(r.actions[size_t(r.order[0])]);
    if (analysis.report().order.empty()) analysis.set_position_to(rules.start());
  }
  is_over = true;
  watcher.join();
  std::printf("%lld\n", static_cast<long long>(total.load()));
}

template <GameRules G>
void run_policy(const G& rules, const std::string& policy, int threads, int leaves, int rounds) {
  if (policy == "alphago")
    run<AlphaGoSearch<G>>(rules, policy, threads, leaves, rounds);
  else
    run<AnalysisSearch<G>>(rules, policy, threads, leaves, rounds);
}

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const std::string policy = argv[2];
  const int threads = std::atoi(argv[3]), leaves = std::atoi(argv[4]), rounds = std::atoi(argv[5]);
  if (std::string(argv[1]) == "go") {
    Params params;
    for (const ParamHelp& p : Go<9>::parameters()) params[p.name] = p.default_value;
    params["size"] = std::int64_t(9);
    run_policy(Go<9>(params), policy, threads, leaves, rounds);
  } else {
    run_policy(ConnectFour(Params{}), policy, threads, leaves, rounds);
  }
}

// Times the tree alone in one process, for benchmarks/speed/tree.sh: `tree GAME POLICY SIMULATIONS` prints
// simulations/s of CPU time.  Includes the core of any revision, so that two revisions can be timed in turn.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "games/connect_four.h"
#include "games/othello.h"
#include "search/game_batch.h"
#include "search/gumbel.h"
#include "search/puct.h"
#if __has_include("games/go/go.h")
#include "games/go/go.h"
#define HAS_GO
#elif __has_include("games/go.h")
#include "games/go.h"
#define HAS_GO
#endif

using namespace shusaku;

static double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

template <class G, class P>
void measure(const G& rules, std::uint64_t simulations) {
  SearchOptions options;
  options.simulations = 64, options.cache = 0, options.noise = false, options.reuse = false, options.symmetries = true;
  // The core has no defaults of its own: these are those of common/config/search.py.
  options.c_puct = 1.5f, options.c_puct_base = 19652.f, options.fpu_reduction = 0.2f;
  options.root_policy_temperature = options.root_policy_temperature_early = 1.f;
  options.temperature = 1.f, options.temperature_plies = 30, options.considered_actions = 16,
  options.gumbel_scale = 1.f;
  options.gumbel_interior = "improved", options.value_scale = 0.1f, options.maxvisit_init = 50.f;
  options.rescale_values = true;
#if __has_include("search/self_play_options.h")
  SelfPlayOptions self_play;
  self_play.policy_temperature = 1.f, self_play.decided_value = 1.f, self_play.decided_plies = 3;
  GameBatch<G, P> games(rules, options, self_play, 16, 1);
#else
  GameBatch<G, P> games(rules, options, 16, 1);
#endif
  const Shape shape = rules.shape();
  std::vector<float> logits(games.leaves().actions.size()), values(games.leaves().offsets.size());
  const std::uint64_t warm = simulations / 10;
  double begin = 0;
  bool is_warm = false;
  const auto made = [&] {
    const Counters& c = games.counters();
    return c.evaluations + c.cache_hits + c.terminals;
  };
  while (made() < simulations + warm) {
    if (!is_warm && made() >= warm) is_warm = true, begin = cpu_seconds();
    const Leaves& l = games.select(0);
    pseudo_random_evaluate(l.packed.data(), shape.packed_bytes(), l.uniform.data(), shape.uniform, l.offsets.data(),
                           l.actions.data(), l.count, logits.data(), values.data());
    games.expand_and_backup(logits.data(), values.data(), 0);
    games.take_finished();
  }
  std::printf("%.0f\n", double(simulations) / (cpu_seconds() - begin));
}

template <class G>
void with_policy(const G& rules, const std::string& policy, std::uint64_t simulations) {
  if (policy == "gumbel")
    measure<G, Gumbel>(rules, simulations);
  else
    measure<G, Puct>(rules, simulations);
}

static Params go_params(std::int64_t size) {
  return {{"size", size},
          {"komi", 7.0},
          {"rules", std::string("tromp_taylor")},
          {"superko", std::string("positional")},
          {"planes", std::string("zero")},
          {"max_plies", std::int64_t(0)},
          {"handicap", std::int64_t(0)}};
}

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "tree connect_four|othello|go|go_19x19 puct|gumbel SIMULATIONS\n"), 2;
  const std::string game = argv[1], policy = argv[2];
  const std::uint64_t simulations = std::strtoull(argv[3], nullptr, 10);
  if (game == "connect_four")
    with_policy(ConnectFour(Params{}), policy, simulations);
  else if (game == "othello")
    with_policy(Othello<8>(Params{}), policy, simulations);
#ifdef HAS_GO
  else if (game == "go")
    with_policy(Go<9>(go_params(9)), policy, simulations);
  else if (game == "go_19x19")
    with_policy(Go<19>(go_params(19)), policy, simulations);
#endif
  else
    return std::fprintf(stderr, "no such game: %s\n", argv[1]), 2;
}

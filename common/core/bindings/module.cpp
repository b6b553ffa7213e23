#include "bindings/arrays.h"

NB_MODULE(_core, m) {
  m.doc() = "The C++ core: games, search, self-play and rows.";
  shusaku::bind_external_errors();
  shusaku::bind_games(m);
  shusaku::bind_search(m);
  shusaku::bind_analysis(m);
  shusaku::bind_rollouts(m);
  shusaku::bind_rows(m);
  shusaku::bind_serving(m);
  shusaku::bind_ranks(m);
  shusaku::bind_network(m);
}

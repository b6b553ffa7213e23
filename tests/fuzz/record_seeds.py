"""Files of games to vary: for each notation, some that hold most of what it has."""

NOTATION_SEEDS = {
    "sgf": [
        "(;FF[4]GM[1]CA[UTF-8]SZ[5]KM[6.5]RU[Chinese]HA[2]AB[aa:ba][cc]AW[ee]PL[W]PB[x\\]]RE[B+R]C[a];W[dd]C[b]"
        "(;B[tt];W[])(;B[ab]))",
        "(;GM[2]SZ[6];B[cb];W[b2])", "(;GM[11]SZ[4]RE[W+];B[a1];W[d4]N[x];B[resign])\n(;GM[1])",
    ],
    "pgn": [
        '[Event "e"]\n[Result "1-0"]\n\n1. e4! {c [%emt 0:00:01]} e5 (1... c5 $1) 2. Nf3 ; x\nNc6 1-0\n',
        '[SetUp "1"]\n[FEN "8/P6k/8/8/8/8/8/K7 w - - 0 1"]\n[Termination "time forfeit"]\n\n1. a8=Q+ *\n',
    ],
    "kif": [
        "手合割：二枚落ち\n下手：a\n上手：b\n   1 ６二玉(51)   ( 0:01/00:00:01)\n*c\n   2 投了\nまで1手で上手の勝ち\n",
        "手合割：５五将棋\n後手の持駒：飛　歩\n|v玉 ・ ・ ・ ・|\n| ・ ・ ・ ・ ・|\n| ・ ・ ・ ・ ・|\n"
        "| ・ ・ ・ ・ ・|\n| ・ ・ ・ ・ 玉|\n先手の持駒：金\n後手番\n   1 ３三飛打\n   2 千日手\n変化：1手\n",
    ],
    "csa": [
        "V2.2\nN+a\n$EVENT:e\nPI82HI\n-\n-5142OU,T3\n'*c\n+7776FU\n%TORYO\n/\nP+59OU00FU\nP-51OU00AL\n+\n%CHUDAN\n",
        "P1-OU *  *  *  * \nP2 *  *  *  *  * \nP3 *  *  *  *  * \nP4 *  *  *  *  * \nP5 *  *  *  * +OU\n+\n+1514OU\n",
    ],
    "jsonl": [
        '{"name": "tic_tac_toe", "params": {}, "players": ["a", "b"], "outcome": 1, "moves": ["a1", {"move": "b2", '
        '"value": 0.5, "policy": {"b2": 1}, "comment": "c", "nags": [1], "seconds": 2}]}\n',
    ],
}

"""From risk to decision: recodings, their risk without refitting, and the search among them."""

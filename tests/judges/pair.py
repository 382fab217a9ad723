"""A source and an honest rewrite of it, which every check of form must accept."""

SOURCE = (
    "The Maple Street Bridge was opened on 4 May 1902 and carries two railway tracks across the river, which is 300 "
    "metres wide at this point. It was designed by Anna Keller, who had studied in Vienna, and cost 1,200,000 crowns. "
    "After the flood of 1954 the northern pier had to be replaced, and since then trains have crossed at no more than "
    "40 kilometres per hour."
)
REWRITE = (
    "Two railway tracks cross the river on the Maple Street Bridge, a work of the Vienna-trained engineer Anna Keller "
    "that cost 1,200,000 crowns. Traffic began on 4 May 1902 over what is, here, 300 metres of water. When a flood "
    "destroyed part of the northern pier in 1954 it was rebuilt, and a speed limit of 40 kilometres per hour has "
    "applied ever since."
)

"""What the analyses found of a schedule, in words and in pictures. Pure: facts in, text and SVG out."""
